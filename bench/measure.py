# SPDX-License-Identifier: MIT
"""measure - what `run` measures with: finding libraries, building the programs, running them under
each library in turn, and the tables."""

import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LOADS = ['larson', 'xmalloc', 'mstress', 'rptest', 'scratch']
PROGRAMS = ['micro', 'footprint', 'threads64', 'turnover', 'grow', 'idle', 'holes', 'launch']
PEERS = [('mimalloc2', ['libmimalloc.so.2', 'libmimalloc.so.2.0']),
         ('jemalloc', ['libjemalloc.so.2']),
         ('tcmalloc', ['libtcmalloc_minimal.so.4', 'libtcmalloc.so.4'])]


def find_library(names):
    try:
        env = dict(os.environ, PATH=os.environ.get('PATH', '') + ':/sbin:/usr/sbin')
        listed = subprocess.run(['ldconfig', '-p'], capture_output=True, text=True, env=env).stdout
    except OSError:
        listed = ''
    for name in names:
        m = re.search(r'^\s*%s \(.*=> (\S+)$' % re.escape(name), listed, re.M)
        if m:
            return m.group(1)
        for folder in ('/usr/lib64', '/usr/local/lib', '/usr/lib', '/lib'):
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return None


def choose_libraries(args):
    """[(name, path or '-')]: the C library, ours, other builds, peers."""
    ours = args.ours
    if not ours:
        for at in ('.libs', 'build/.libs', '../.libs'):
            if os.path.exists(os.path.join(at, 'libmimalloc.so.3')):
                ours = os.path.join(at, 'libmimalloc.so.3')
                break
        else:
            sys.exit('bench: no libmimalloc.so.3 here; say --ours LIBRARY')
    libs = [('libc', '-'), ('ours', ours)]
    for spec in args.others:
        name, _, path = spec.rpartition('=')
        libs.append((name or os.path.basename(path), path))
    if args.peers:
        libs += [(name, find_library(names)) for name, names in PEERS]
        for name, path in libs:
            if path is None:
                print('bench: %s is not installed, left out' % name)
    libs = [(n, p if p == '-' else os.path.abspath(p)) for n, p in libs if p]
    for name, path in libs:
        if path != '-' and not os.path.exists(path):
            sys.exit('bench: no library ' + path)
    return libs


def build(folder, args):
    """The programs are part of what is measured, so their flags are fixed here."""
    cc = args.cc.split() + ['-std=gnu11', '-O2', '-fno-builtin', '-Wall', '-Wextra']
    jobs = [cc + ['-pthread', '%s/%s.c' % (HERE, p), '-o', os.path.join(folder, p)]
            for p in PROGRAMS + LOADS]
    jobs.append(cc + ['-shared', '-fPIC', HERE + '/empty.c',
                      '-o', os.path.join(folder, 'empty.so')])
    for job in jobs:
        if subprocess.run(job).returncode != 0:
            sys.exit('bench: cannot build: ' + ' '.join(job))


def write_back(paths):
    """Pages of a file that was just linked are dirty in the page cache, and the kernel then counts
    them as private dirty memory of the process that maps them."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


class Bench:
    def __init__(self, folder, libs, args):
        self.folder, self.libs, self.args = folder, libs, args
        self.names = [name for name, _ in libs]
        self.records = []   # (part, load, measure, library, samples)
        self.figures = []   # (text, value, bound, ok or None, unit, note)
        self.crashed = []   # (library, command, what) of every run that did not end with status 0

    def has(self, part, load):
        return part in self.args.parts and (not self.args.only or load in self.args.only)

    def launch(self, name, path, *command, env=None):
        """(words printed, peak KiB, CPU seconds) or None when it crashed. env: more variables."""
        argv = [os.path.join(self.folder, 'launch'), path,
                os.path.join(self.folder, command[0])] + [str(c) for c in command[1:]]
        try:
            r = subprocess.run(argv, capture_output=True, text=True, timeout=self.args.timeout,
                               env=dict(os.environ, **(env or {})))
            lines = r.stdout.splitlines()
            end = lines[-1].split() if lines else ['?', '1']
            ok = end[0] == '@' and end[1] == '0'
            what = 'wait status %s %s' % (end[1], r.stderr.strip()[-200:])
        except subprocess.TimeoutExpired:
            ok, what = False, 'no end in %d s' % self.args.timeout
        if not ok:
            self.crashed.append((name, ' '.join(str(c) for c in command), what))
            print('  CRASH %s under %s: %s' % (' '.join(map(str, command)), name, what))
            return None
        return ' '.join(lines[:-1]).split(), int(end[2]), float(end[4]) + float(end[5])

    def record(self, part, load, measure, name, samples):
        self.records.append({'part': part, 'load': load, 'measure': measure, 'library': name,
                             'samples': samples})
        return statistics.median(samples) if samples else None

    def figure(self, text, value, bound, unit='', note=''):
        ok = None if value is None or bound is None else value <= bound
        self.figures.append((text, value, bound, ok, unit, note))

    def table(self, title, rows, form='%.3f'):
        """rows: [(load, [value or None for each library])]; in brackets the ratio to the best."""
        if not rows:
            return
        print('\n%s\n%-13s' % (title, '') + ''.join('%19s' % n[-18:] for n in self.names))
        for load, values in rows:
            best = min((v for v in values if v is not None), default=0)
            cells = ['-' if v is None else form % v + ' (%.2f)' % (v / best if best else 1)
                     for v in values]
            print('%-13s' % load + ''.join('%19s' % c for c in cells), flush=True)

    def of(self, values, name):
        return values[self.names.index(name)] if name in self.names else None

    def versus(self, values, peers):
        """Our value as a share of the best of the peers."""
        ours = self.of(values, 'ours')
        theirs = [v for v in (self.of(values, p) for p in peers) if v]
        return ours / min(theirs) if ours is not None and theirs else None

    def doubts(self, wall, cpu, peers):
        """The same share by the fastest runs and by CPU time: where these are far from the medians'
        the machine was busy."""
        def share(pick, samples):
            got = [pick(samples[x]) if samples[x] else None for x in self.names]
            return self.versus(got, peers)

        least, used = share(min, wall), share(statistics.median, cpu)
        return '' if least is None else 'by minima %.2f, by CPU time %.2f' % (least, used or 0)

    def interleave(self, rounds, one):
        """one(name, path) for each library, round by round, the first one changing."""
        seen = {name: [] for name in self.names}
        for i in range(rounds):
            k = i % len(self.libs)
            for name, path in self.libs[k:] + self.libs[:k]:
                got = one(name, path)
                if got is not None:
                    seen[name].append(got)
        return seen
