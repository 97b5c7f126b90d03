/* SPDX-License-Identifier: MIT */
/* The snapshot that the options ask for at process exit. */
#ifndef MI_API_SNAPSHOT_H
#define MI_API_SNAPSHOT_H

/* After the background thread has ended. */
void mi__snapshot_at_exit(void);

#endif
