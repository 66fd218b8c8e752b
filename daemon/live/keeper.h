/* keeper: writes and removes snapshots of sessions on libuv's thread pool, one after the other in the order they were asked for, so
 * that the loop never waits for a disk. Bounded by its caller: one unfinished write per session. Loop thread. */
#ifndef BRR_DAEMON_LIVE_KEEPER_H
#define BRR_DAEMON_LIVE_KEEPER_H
#include <uv.h>

#include "daemon/live/session.h"

struct keeper;
/* dir exists (snapshot_prepare) and outlives the keeper. written: on the loop, for each put; err has code 0 when the snapshot is
 * durable. */
struct keeper *keeper_new(uv_loop_t *loop, const char *dir, void (*written)(void *ctx, const char *id, const struct err *err),
                          void *ctx);
void keeper_free(struct keeper *k); /* only after the loop has ended; queued snapshots are not written. NULL is fine */
/* At start: every session with a snapshot goes on from it; corrupt ones are logged, counted and moved aside. Reads on the loop. */
int keeper_restore(struct keeper *k, struct sessions *sessions, struct metrics *metrics, struct err *err);
/* Returns the callbacks that the sessions need; their ctx is the keeper. */
struct session_keeper keeper_for_sessions(struct keeper *k);

#endif
