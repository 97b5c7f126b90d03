/* SPDX-License-Identifier: MIT */
/* empty - a library with nothing in it: what preloading any library costs in system calls. */
extern int bench_empty;
int bench_empty = 1;
