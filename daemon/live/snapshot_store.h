/* snapshot_store: reads, writes and removes snapshots of sessions on libuv's thread pool, one after the other in the order they
 * were asked for, so that the loop never waits for a disk; the EEG of alarms is written beside that, and delays nothing. Bounded by
 * its caller: one unfinished write per session; it reads one snapshot at a time. Loop thread. */
#pragma once
#include <uv.h>

#include "daemon/live/session.h"

struct snapshot_store;
/* dir exists (snapshot_prepare) and outlives the snapshot store. shared: the folder above dir has those of other daemons
 * (live/claim.h). written: on the loop, for each put; err has code 0 when the snapshot is durable. */
struct snapshot_store *snapshot_store_new(uv_loop_t *loop, const char *dir, bool shared,
                                          void (*written)(void *ctx, const char *id, const struct err *err), void *ctx);
/* Only after the loop has ended; queued snapshots are not written. NULL is allowed. */
void snapshot_store_free(struct snapshot_store *s);
/* At start: every session with a snapshot goes on from it, sessions that have ended last. Corrupt snapshots and those of another
 * version are logged, counted and moved aside. Others that cannot be used now (the volume does not answer, a model is missing,
 * memory or places are short) stay, and are tried again every few seconds for try_ms; after that they are left for the next daemon.
 * sessions_await is kept up to date. */
void snapshot_store_restore(struct snapshot_store *s, struct sessions *sessions, struct metrics *metrics, int64_t try_ms);
bool snapshot_store_restoring(const struct snapshot_store *s); /* some snapshots have not been tried yet */
/* Once a second. */
void snapshot_store_tick(struct snapshot_store *s);
/* Returns the callbacks that the sessions need; their ctx is the snapshot store. */
struct session_store snapshot_store_for_sessions(struct snapshot_store *s);
