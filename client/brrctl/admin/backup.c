/* backup: what Admin.Backup sends, as files and their manifest. The manifest is written last: a directory without one is no backup.
 */

#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "store/digest.h"

enum { MANIFEST_BYTES = 64 << 20, PRIVATE = 0077 };

struct backup {
    const char *directory;
    struct fsio_writer file;
    struct digest *digest;
    char path[4096]; /* of the open file, below the directory; "" = none */
    struct str text; /* the manifest */
    struct json_writer manifest;
    int64_t files, bytes;
    struct err err;
};

static int begin_file(struct backup *b, const char *path) {
    char whole[4096];
    int rc;
    if (*b->path || !fsio_is_below(path))
        return err_set(&b->err, ERR_DATA_LOSS, "the daemon sent a file '%.200s' out of its place", path);
    if ((rc = fsio_join(whole, sizeof whole, b->directory, path, &b->err)) || (rc = fsio_mkdirs_above(whole, &b->err)) ||
        (rc = fsio_writer_open(&b->file, whole, &b->err)))
        return rc;
    str_copy(b->path, sizeof b->path, path);
    b->digest = digest_new();
    return 0;
}

static int end_file(struct backup *b, const char *sha256) {
    char found[DIGEST_HEX_SIZE] = "";
    int rc;
    digest_finish(b->digest, found);
    b->digest = NULL;
    if (strcmp(found, sha256)) {
        fsio_writer_abort(&b->file);
        rc = err_set(&b->err, ERR_DATA_LOSS, "%s was received with SHA-256 %s, expected %s", b->path, found, sha256);
    } else {
        rc = fsio_writer_commit(&b->file, &b->err);
    }
    json_begin_object(&b->manifest, NULL);
    json_put_str(&b->manifest, "path", b->path);
    json_put_i64(&b->manifest, "bytes", b->file.written_bytes);
    json_put_str(&b->manifest, "sha256", found);
    json_end(&b->manifest, '}');
    b->files++;
    b->bytes += b->file.written_bytes;
    *b->path = '\0';
    return rc;
}

static void put_info(struct backup *b, const Brr__V1__BackupInfo *info) {
    json_begin_object(&b->manifest, NULL);
    json_put_i64(&b->manifest, "format", 1);
    JSON_MEMBERS(&b->manifest, *info, version, revision, schema, results, created_ms);
    json_begin_array(&b->manifest, "files");
}

static bool on_part(void *ctx, const void *message) {
    struct backup *b = ctx;
    const Brr__V1__BackupPart *part = message;
    if (part->info) {
        put_info(b, part->info);
        return true;
    }
    if (*part->path && begin_file(b, part->path))
        return false;
    if (!*b->path)
        return err_set(&b->err, ERR_DATA_LOSS, "the daemon sent data without a file"), false;
    digest_update(b->digest, part->data.data, part->data.len);
    if (fsio_writer_write(&b->file, part->data.data, part->data.len, &b->err))
        return false;
    return !*part->sha256 || !end_file(b, part->sha256);
}

/* Private, as EEG and the models of patients are. */
static int make_directory(const char *directory, struct err *err) {
    char manifest[4096];
    int rc;
    umask(PRIVATE);
    if ((rc = fsio_join(manifest, sizeof manifest, directory, "backup.json", err)) || (rc = fsio_mkdirs(directory, err)))
        return rc;
    return fsio_exists(manifest) ? err_set(err, ERR_EXISTS, "%s holds a backup already; name another directory", directory) : 0;
}

static int write_manifest(struct backup *b) {
    char path[4096];
    int rc = fsio_join(path, sizeof path, b->directory, "backup.json", &b->err);
    if (rc)
        return rc;
    json_end(&b->manifest, ']');
    json_end(&b->manifest, '}');
    str_puts(&b->text, "\n");
    return fsio_write_text(path, &b->text, &b->err);
}

static void drop_open_file(struct backup *b) {
    char unused[DIGEST_HEX_SIZE];
    if (!*b->path)
        return;
    fsio_writer_abort(&b->file);
    digest_finish(b->digest, unused);
}

static int cmd_backup(const struct arguments *o) {
    const Brr__V1__BackupRequest in = BRR__V1__BACKUP_REQUEST__INIT;
    struct backup b = {.directory = o->args[0]};
    if (make_directory(b.directory, &b.err))
        return brrctl_fail(&b.err);
    str_init(&b.text, MANIFEST_BYTES);
    json_writer_init(&b.manifest, &b.text);
    int code = brrctl_follow(o, "/brr.v1.Admin/Backup", &in.base, on_part, &b);
    drop_open_file(&b);
    if (!code && !b.err.code && !b.files)
        err_set(&b.err, ERR_DATA_LOSS, "the daemon sent no file");
    if (!code && !b.err.code)
        write_manifest(&b);
    str_done(&b.text);
    if (code || b.err.code)
        return code ? code : brrctl_fail(&b.err);
    if (o->json) {
        struct json_writer *w = output_begin();
        JSON_MEMBERS(w, b, directory, files, bytes);
        output_end(w);
    } else {
        printf("%s: %lld files, %lld bytes; `brrd --restore %s --config FILE` makes a daemon of it\n", b.directory,
               (long long)b.files, (long long)b.bytes, b.directory);
    }
    return 0;
}

BRRCTL_COMMAND(backup, "DIR", &arguments_none, cmd_backup,
               "copy job records, journal, served models and saved streams of the daemon to a directory here",
               "Folders of jobs are not in it. `brrd --restore DIR --config FILE` makes a daemon of it.\nexample: brrctl backup "
               "/backup/brrd-2026-11-24");
