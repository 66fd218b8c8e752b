/* brr.v1.Admin/Backup: the files of daemon/backup as parts, read on the thread pool as the client takes them. The databases are
 * copied first, so that the files which their records name are there when they are read. */

#include "brr/v1/admin.pb-c.h"
#include "daemon/backup/backup.h"
#include "daemon/journal/onset_files.h"
#include "daemon/services/services.h"
#include "store/digest.h"

enum { DATABASES = 2 };

struct backup_call {
    struct offload work;
    const struct services *services;
    struct {
        const char *name;            /* in the backup */
        char path[4096], copy[4096]; /* copy: among the temporary files of paths.cache; "" once removed */
    } databases[DATABASES];
    char results[4096];
    struct backup_files files;
    size_t next; /* file to be opened: of the databases, then of the files */
    struct digest *digest;
    char sha256[DIGEST_HEX_SIZE]; /* "" but in the last part of a file */
    const char *path;             /* of the open file, in the backup */
    bool prepared;
};

/* On the pool. */
static void clean(struct offload *work) {
    struct backup_call *b = (struct backup_call *)work;
    for (int i = 0; i < DATABASES; i++) {
        if (*b->databases[i].copy)
            unlink(b->databases[i].copy);
        *b->databases[i].copy = '\0';
    }
}

static void drop(struct offload *work) {
    struct backup_call *b = (struct backup_call *)work;
    if (*b->databases[0].copy) {
        offload_start_must(work, clean, NULL); /* dropped once more */
        return;
    }
    if (b->digest)
        digest_finish(b->digest, b->sha256);
    backup_files_done(&b->files);
}

/* On the pool. The first answer: what the backup is of. */
static void prepare(struct backup_call *b, struct err *err) {
    Brr__V1__BackupInfo info = BRR__V1__BACKUP_INFO__INIT;
    Brr__V1__BackupPart out = BRR__V1__BACKUP_PART__INIT;
    b->prepared = true;
    for (int i = 0; i < DATABASES; i++) {
        unlink(b->databases[i].copy); /* of a daemon that was killed */
        if (db_copy(b->databases[i].path, b->databases[i].copy, err))
            return;
    }
    if (backup_files(b->results, &b->files, err))
        return;
    LEND_TEXTS(info, *b->services, version, revision);
    info.schema = db_schema();
    info.results = b->results;
    info.created_ms = clock_wall_ms();
    out.info = &info;
    offload_pack(&b->work, &out.base);
}

/* A stream that ended meanwhile needs no snapshot, and the oldest EEG of alarms makes room; everything else must be there. */
static bool may_be_gone(const char *path) { return str_starts(path, "sessions/") || str_starts(path, ONSETS_FOLDER "/"); }

/* Opens the next file. False after the last one and after an error. */
static bool open_next(struct backup_call *b, struct err *err) {
    char path[8192];
    size_t bytes = 0;
    while (b->next < DATABASES + b->files.n) {
        const bool copied = b->next < DATABASES;
        const char *name = copied ? b->databases[b->next].name : b->files.paths[b->next - DATABASES];
        str_format(path, sizeof path, "%s/%s", b->results, name);
        int rc = fsio_open_file(copied ? b->databases[b->next].copy : path, &b->work.fd, &bytes, err);
        b->next++;
        if (rc == ERR_NOT_FOUND && may_be_gone(name)) {
            err->code = 0;
            continue;
        }
        if (rc == ERR_NOT_FOUND)
            err_set(err, ERR_UNAVAILABLE, "%s was removed meanwhile; make the backup again", path);
        if (rc)
            return false;
        b->path = name;
        if (!(b->digest = digest_new()))
            err_set(err, ERR_EXHAUSTED, "out of memory for a backup");
        return b->digest != NULL;
    }
    return false;
}

static void end_digest(struct backup_call *b, struct err *err) {
    if (!digest_finish(b->digest, b->sha256))
        err_set(err, ERR_INTERNAL, "cannot compute a SHA-256");
    b->digest = NULL;
}

/* On the pool. The next part of the open file, or the first one of the next file. */
static void pack_backup(struct offload *work) {
    struct backup_call *b = (struct backup_call *)work;
    Brr__V1__BackupPart out = BRR__V1__BACKUP_PART__INIT;
    const bool begins = work->fd < 0;
    if (!b->prepared) {
        prepare(b, &work->err);
        return;
    }
    if ((begins && !open_next(b, &work->err)) || !offload_read(work, b->path, &out.data))
        return;
    digest_update(b->digest, out.data.data, out.data.len);
    if (!out.data.len)
        end_digest(b, &work->err);
    out.path = begins ? (char *)(uintptr_t)b->path : out.path;
    out.sha256 = b->sha256;
    offload_pack(work, &out.base);
    *b->sha256 = '\0';
}

static int backup(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    static unsigned calls;
    const struct services *s = services_of(call);
    struct backup_call *b = offload_new(call, OFFLOAD_FILES, sizeof *b, drop, err);
    if (!b)
        return err->code;
    b->services = s;
    b->databases[0].name = BACKUP_DATABASE;
    b->databases[1].name = BACKUP_JOURNAL;
    str_copy(b->databases[0].path, sizeof b->databases[0].path, s->database);
    str_copy(b->databases[1].path, sizeof b->databases[1].path, journal_path(s->journal));
    str_copy(b->results, sizeof b->results, s->paths[2]);
    for (int i = 0; i < DATABASES; i++)
        str_format(b->databases[i].copy, sizeof b->databases[i].copy, "%s/networks/backup-%u-%s", s->paths[1], calls,
                   b->databases[i].name);
    calls++;
    offload_stream(&b->work, pack_backup);
    return 0;
}

const struct rpc_method svc_backup[] = {
    {RPC_METHOD("/brr.v1.Admin/Backup", ROLE_ADMIN, brr__v1__backup_request, backup), .writable = offload_writable,
     .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {.path = NULL},
};
