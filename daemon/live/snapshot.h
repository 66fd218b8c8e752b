/* snapshot: the states of sessions as files, one per session, and an empty file ID.ended beside it if the stream has ended, in a
 * folder that only the daemon's user may read (they derive from EEG). A file is its magic word, the length and bytes of the state,
 * and a SHA-256 over all of these. Writing replaces the file atomically and durably. Any thread; one at a time
 * per id, except for its EEG. */
#pragma once

#include "store/digest.h"

enum {
    SNAPSHOT_ID_SIZE = 33,
    SNAPSHOT_MAX_BYTES = 256 << 20,
    SNAPSHOT_REJECTED_BYTES = 256 << 20, /* of all that are kept in "rejected", and how old they become */
    SNAPSHOT_REJECTED_S = 30 * 24 * 3600,
    SNAPSHOT_MOVED_S = 3 * 24 * 3600
};

/* The folder, mode 0700; what killed writers left in it is removed. */
int snapshot_prepare(const char *dir, struct err *err);
int snapshot_write(const char *dir, const char *id, const void *state, size_t len, struct err *err);
struct snapshot_file {
    const char *id;
    const void *state;
    size_t len;
    bool renew; /* only if it is there: ABORTED, and nothing is written, if another daemon has claimed it (live/claim.h) */
    struct err err;
};
/* Writes n snapshots with one sync of their folder. Snapshots without an error are durable then. */
void snapshot_write_all(const char *dir, struct snapshot_file *files, size_t n);
/* DATA_LOSS when the file is corrupt or of another version. The caller frees *ret. */
int snapshot_read(const char *dir, const char *id, char **ret, size_t *ret_len, struct err *err);
/* Marks the session as ended: its client was sent the Summary. The next snapshot_write of this id removes the mark. */
int snapshot_end(const char *dir, const char *id, struct err *err);
/* Files of the same form beside the snapshot. EEG: what people may look at after a restart, removed and rejected with
 * the snapshot; it may be written while the snapshot is written or removed, and nothing stays without a snapshot. ALARM:
 * that of a stream that this folder's daemon has taken over, as its former owner hands it over. */
enum snapshot_beside { SNAPSHOT_EEG, SNAPSHOT_ALARM };
int snapshot_write_eeg(const char *dir, const char *id, const void *data, size_t len, struct err *err);
int snapshot_write_alarm(const char *dir, const char *id, const void *data, size_t len, struct err *err);
int snapshot_read_beside(const char *dir, const char *id, enum snapshot_beside what, char **ret, size_t *ret_len, struct err *err);
int snapshot_remove_beside(const char *dir, const char *id, enum snapshot_beside what, struct err *err);
int snapshot_unmark(const char *dir, const char *id, struct err *err);
bool snapshot_ended(const char *dir, const char *id);
int snapshot_remove(const char *dir, const char *id, struct err *err); /* one that is not there is removed */
/* True for errors that stay however often the snapshot is read: the snapshot is corrupt or of another version, or its model is
 * another one. */
bool snapshot_is_useless(const struct err *why);
/* Out of the way, into the folder "rejected" beside it, for people to look at. */
int snapshot_reject(const char *dir, const char *id, struct err *err);
/* Removes rejected snapshots that were written more than SNAPSHOT_REJECTED_S ago, and the oldest of the others until they have at
 * most SNAPSHOT_REJECTED_BYTES. */
int snapshot_prune_rejected(const char *dir, struct err *err);
/* The models of the snapshots, each once: DIR/models/SHA256.safetensors, so that a snapshot can be used whatever happens to the
 * file that the stream was opened with. Keeping one makes a hard link, or a copy of a file on another volume; nothing happens when
 * it is kept already. PRECONDITION: the file at path is another one by now. */
int snapshot_model_path(const char *dir, const char *sha256, char *path, size_t size, struct err *err);
int snapshot_keep_model(const char *dir, const char *sha256, const char *path, struct err *err);
int snapshot_remove_model(const char *dir, const char *sha256, struct err *err);
struct snapshot_model {
    char sha256[DIGEST_HEX_SIZE];
};
/* malloc'd; free(). */
int snapshot_list_models(const char *dir, struct snapshot_model **ret, size_t *ret_n, struct err *err);
struct snapshot_entry {
    char id[SNAPSHOT_ID_SIZE];
    bool ended;
};
/* Another daemon has taken the snapshot over: a file ID.moved holds the time and the new owner, until the snapshot is
 * back (owner NULL), or snapshot_list has read it SNAPSHOT_MOVED_S later. */
int snapshot_note_moved(const char *dir, const char *id, const char *owner, struct err *err);
/* The new owner of such a file. NOT_FOUND: there is none. */
int snapshot_moved_to(const char *dir, const char *id, char *ret_owner, size_t size, struct err *err);
/* The snapshots in the folder, those that were taken over and are not back, or the streams with alarms that were handed
 * over: first those of streams that have not ended, sorted by id; free(). */
enum snapshots { SNAPSHOTS_HERE, SNAPSHOTS_MOVED, SNAPSHOTS_ALARMED };
int snapshot_list(const char *dir, enum snapshots what, struct snapshot_entry **ret, size_t *ret_n, struct err *err);
