#!/bin/sh
# backup.sh FROM TO: copies every file below FROM into TO, keeping folders; prints how many were copied.
FROM=$1
TO=$2
count=0
for f in `find $FROM -type f`; do
    mkdir -p $TO/`dirname $f`
    cp $f $TO/$f
    count=`expr $count + 1`
done
echo $count files
