"""A program on the ladder: requests come on standard input, replies go to descriptor 3."""
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
    reply = "ok"  # to reserve too: allocate there, outside the clock
    if verb == "end":
        break
    if verb == "hello":  # hello 1 size=20000: the version of the protocol, then the work
        size = int(dict(word.split("=") for word in words[1:])["size"])
    elif verb == "run":
        start = time.perf_counter()
        if sys.argv[1] == "loop":
            answer = 0.0
            for i in range(size):
                answer += math.sqrt(i)
        else:
            answer = math.fsum(map(math.sqrt, range(size)))
        reply = f"ok wall={time.perf_counter() - start:.9f} items={size} count=1"
    elif verb == "output":  # output PATH: the answer as arrays
        with open(unquote(words[0]), "wb") as file:
            file.write(b"array sum f64 1\n" + struct.pack("<d", answer))
    print(reply, file=replies)
