"""A program on the ladder: requests come on standard input, replies go to descriptor 3."""
import hashlib
import math
import os
import struct
import sys
import time
from urllib.parse import unquote

replies = os.fdopen(3, "w", buffering=1)
size, answer = 0, float("nan")
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "hello":  # hello 1 size=20000: the version of the protocol, then the work
        size = int(dict(word.split("=") for word in words[1:])["size"])
        print("ok", file=replies)
    elif verb == "reserve":  # allocate here, outside the clock
        print("ok", file=replies)
    elif verb == "run":
        answer = float("nan")
        start = time.perf_counter()
        if sys.argv[1] == "loop":
            answer = 0.0
            for i in range(size):
                answer += math.sqrt(i)
        else:
            answer = math.fsum(map(math.sqrt, range(size)))
        wall = time.perf_counter() - start
        checksum = hashlib.sha256(struct.pack("<d", answer)).hexdigest()[:16]
        print(f"ok wall={wall:.9f} items={size} count=1 checksum={checksum}", file=replies)
    elif verb == "output":  # output PATH: the answer as arrays
        with open(unquote(words[0]), "wb") as file:
            file.write(b"array sum f64 1\n" + struct.pack("<d", answer))
        print("ok", file=replies)
    elif verb == "end":
        break
