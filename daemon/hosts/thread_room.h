/* thread_room: whether the process may start as many threads as a daemon has. Without this check a library ends the process without
 * a word when it cannot start one of its own. */
#pragma once
#include "base/base.h"

/* Starts `n` threads at once and ends them. EXHAUSTED: names how many there were, and the limits. Any thread. */
int thread_room_check(int n, struct err *err);
/* The threads of a computation on a thread of its own: it has a lane for each processor. */
int thread_room_of_team(void);
/* The threads of an idle daemon on this machine, and some for its first streams. */
int thread_room_needed(void);
