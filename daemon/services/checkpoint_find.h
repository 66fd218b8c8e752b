/* checkpoint_find: a call about one checkpoint, which its REF names. Its file is found on the pool; its record, if a job wrote it,
 * on the loop. Shared by svc_checkpoints.c and svc_checkpoint_files.c. Loop thread, except for what runs on the pool. */
#pragma once
#include "brr/v1/checkpoints.pb-c.h"
#include "daemon/services/offload.h"
#include "daemon/services/services.h"

/* A model file that no job wrote, as the pool has read it. */
struct checkpoint_file {
    char ref[LIVE_PATH], path[LIVE_PATH];
    int64_t bytes, mtime_ns, step, epoch;
};

/* First member of the state of each such call. */
struct checkpoint_find {
    struct offload work;
    struct db *db;            /* read only */
    struct db_writer *writer; /* of changes, on the pool */
    char ref[LIVE_PATH];
    struct model_ref model; /* as the tables know it */
    struct model_file file;
    struct checkpoint_file about; /* what the file says of itself, or */
    struct err unreadable;        /* why it says nothing, which matters only without a record */
    struct jobdb_checkpoint record;
    bool recorded;
};

/* The call's state with the REF, not yet looked for; NULL after an error. */
void *checkpoint_find_new(struct rpc_call *call, size_t size, const char *ref, void (*drop)(struct offload *work), struct err *err);
/* Finds the file and reads what it says of itself. On the pool. */
void checkpoint_find_file(struct offload *work);
/* The checkpoint that was found, as a message of the call's arena; NULL after the call was refused, or when it has ended. Those of
 * jobs and uploads of others are NOT_FOUND, unless the REF is the name of a model that serves. */
Brr__V1__Checkpoint *checkpoint_found(struct checkpoint_find *f);

/* Reads what the file at this path says of itself. On the pool. */
int checkpoint_file_read(struct checkpoint_file *f, const char *ref, const char *path, struct err *err);
/* Messages in an arena, NULL when it is full: of a record, of a file without one. */
Brr__V1__Checkpoint *checkpoint_message_of(struct rpc_call *call, const struct jobdb_checkpoint *c);
Brr__V1__Checkpoint *checkpoint_message_of_file(struct arena *arena, const struct checkpoint_file *f);
