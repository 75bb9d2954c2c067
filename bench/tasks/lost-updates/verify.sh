python3 - <<'EOF'
import os
import signal
import subprocess
import sys
import tempfile
import time

folder = tempfile.mkdtemp()
path = os.path.join(folder, "n")
code = "import sys; from counter import bump; print(*[bump(sys.argv[1]) for _ in range(50)])"
running = [subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(6)]
numbers = [int(word) for process in running for word in process.communicate()[0].split()]
assert sorted(numbers) == list(range(1, 301)), len(set(numbers))
assert open(path).read().strip() == "300"
loop = "import sys; from counter import bump\nwhile True: bump(sys.argv[1])"
least = 300
for _ in range(15):
    process = subprocess.Popen([sys.executable, "-c", loop, path])
    end = time.time() + 0.15
    while time.time() < end:
        seen = open(path).read()
        assert seen.strip().isdigit(), repr(seen)
        assert int(seen) >= least
        least = int(seen)
    process.send_signal(signal.SIGKILL)
    process.wait()
done = subprocess.run([sys.executable, "counter.py", path, "5"], capture_output=True, text=True)
assert int(done.stdout) == int(open(path).read()) >= least + 5, done
with open(path, "w") as file:
    file.write("ten")
done = subprocess.run([sys.executable, "counter.py", path], capture_output=True, text=True)
assert done.returncode == 1 and path in done.stderr and "Traceback" not in done.stderr and open(path).read() == "ten", done
EOF
