"""What is made of a run's records afterwards. Reads the folder of a run, also while a driver writes it.

For the commands of `spindle fleet` (`folder` is a `RunFolder`; each raises UsageError with a sentence for people):

    results   rows.chosen_statuses("ok,timeout")        which records are meant by `--status`
              rows.json_lines(folder, statuses)         `--json`: bytes, a line each
              rows.csv_text(folder, statuses)           `--csv`: pieces of text
              rows.table_lines(folder, statuses, width) for people: lines, safe on a terminal
    report    writing.write_report(folder, output, now) → the path of the page; `DIR/results.csv` is written with it
    export    predictions.swebench_lines(folder, name)  `--format swebench`: bytes, a line each

Everything that tasks, models and servers said is text of others: it becomes neither markup, nor a formula, nor a code
for the terminal.
"""
