/* SPDX-License-Identifier: MIT */
#include "base/track.h"

#if MI_VALGRIND
mi__thread_local unsigned mi__track_depth;
#endif
