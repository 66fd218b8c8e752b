"""A corpus laid out like TUSZ, of any number of recordings: true headers and label files over sparse sample data (holes read as zeros),
so that thousands of hours take a few megabytes of disk."""
import os
import random

ELECTRODES = "FP1 FP2 F3 F4 C3 C4 P3 P4 O1 O2 F7 F8 T3 T4 T5 T6 A1 A2 FZ CZ PZ EKG1 T1 T2 C3P C4P SP1 SP2 31 32".split()
COLUMNS = "channel,start_time,stop_time,label,confidence\n"


def header(rate, seconds):
    labels = [(f"EEG {e}-REF", "uV", "-5000", "5000", "-32767", "32767", rate) for e in ELECTRODES]
    labels += [(name, "", "0", "1", "-32767", "32767", 1) for name in ("IBI", "BURSTS", "SUPPR")]
    labels += [("EDF Annotations", "", "-1", "1", "-32767", "32767", 30)]
    n = len(labels)
    head = "0".ljust(8) + "X X X X".ljust(80) + "Startdate 01-JAN-2012 X X X".ljust(80) + "01.01.12" + "10.00.00"
    head += str(256 * (n + 1)).ljust(8) + "EDF+C".ljust(44) + str(seconds).ljust(8) + "1".ljust(8) + str(n).ljust(4)
    fields = [(0, 16), (None, 80), (1, 8), (2, 8), (3, 8), (4, 8), (5, 8), (None, 80), (6, 8), (None, 32)]
    head += "".join((str(row[k]) if k is not None else "").ljust(width) for k, width in fields for row in labels)
    return head.encode("ascii"), 2 * sum(row[6] for row in labels)


def write_labels(stem, seconds, seizures):
    head = f"# version = csv_v1.0.0\n# bname = {os.path.basename(stem)}\n# duration = {seconds:.4f} secs\n#\n"
    with open(stem + ".csv", "w", encoding="ascii") as f:
        f.write(head + COLUMNS)
        for start, end in seizures:
            for pair in ("FP1-F7", "F7-T3", "T3-T5"):
                f.write(f"{pair},{start:.4f},{end:.4f},fnsz,1.0000\n")
    with open(stem + ".csv_bi", "w", encoding="ascii") as f:
        f.write(head + COLUMNS)
        for start, end in seizures or [(0, seconds)]:
            f.write(f"TERM,{start:.4f},{end:.4f},{'seiz' if seizures else 'bckg'},1.0000\n")


def write_corpus(root, recordings, seed=1, longest_s=3600, mean_s=720):
    """Returns the hours and seizures written. A patient has some ten recordings; one recording in six holds seizures."""
    rng = random.Random(seed)
    hours = seizures = 0
    headers = {}
    for i in range(recordings):
        patient = i // 11
        split = "train" if patient % 10 < 7 else "dev" if patient % 10 < 9 else "eval"
        name = "".join(chr(ord("a") + patient // 26**k % 26) for k in range(7, -1, -1))
        folder = f"{root}/edf/{split}/{name}/s{i % 11 // 4 + 1:03}_2012/01_tcp_ar"
        seconds = min(longest_s, max(20, int(rng.expovariate(1 / mean_s))))
        rate = rng.choice((256, 256, 250, 400, 512))
        found = []
        if rng.random() < 1 / 6 or i < 2:
            at = 0
            for _ in range(rng.randrange(1, 6)):
                start = at + rng.uniform(1, 120)
                at = start + rng.uniform(10, 90)
                if at < seconds:
                    found.append((start, at))
        os.makedirs(folder, exist_ok=True)
        stem = f"{folder}/{name}_s{i % 11 // 4 + 1:03}_t{i % 11:03}"
        if (rate, seconds) not in headers:
            headers[rate, seconds] = header(rate, seconds)
        head, record = headers[rate, seconds]
        with open(stem + ".edf", "wb") as f:
            f.write(head)
            f.truncate(len(head) + record * seconds)
        write_labels(stem, seconds, found)
        hours += seconds / 3600
        seizures += len(found)
    return hours, seizures
