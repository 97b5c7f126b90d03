#!/bin/sh
# SPDX-License-Identifier: MIT
# python3 under LD_PRELOAD gives the same output as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need python3
cat >load.py <<'END'
import collections, hashlib, json, os, random, re, subprocess, sys, threading, zlib
random.seed(7)
words = ["%x" % random.getrandbits(random.randint(8, 200)) for _ in range(2000)]
count = collections.Counter(w[:2] for w in words)
print(sorted(count.items())[:20])
text = json.dumps({w: [i, w[::-1]] for i, w in enumerate(words)})
print(hashlib.sha256(text.encode()).hexdigest(), len(json.loads(text)))
packed = zlib.compress(text.encode() * 4, 6)
print(zlib.crc32(zlib.decompress(packed)))
print(len(re.findall(r"[0-9]+[a-f]+", text)))
results = {}
def work(n):
    data = [bytes([n % 256]) * (i * 7 % 5000) for i in range(200)]
    results[n] = hashlib.md5(b"".join(data)).hexdigest()
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(results.items()))
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    print(sum(len(w) for w in sorted(words)), flush=True)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run([sys.executable, "-c", "print('x' * 10)"], capture_output=True, text=True).stdout)
print(len(bytearray(9_000_000)), sum(range(100000)))
END
PYTHONHASHSEED=0
export PYTHONHASHSEED
same "python3" python3 load.py
PYTHONMALLOC=malloc
export PYTHONMALLOC
same "python3 with its own allocator off" python3 load.py
same "python3 that raises" python3 -c 'x = [1] * 1000; raise SystemExit(5)'
ours "python3" python3 -c 'print(len([str(i) for i in range(1000)]))'
