/* alarms eeg, and alarms export --as edf: the EEG around the onsets of alarms that the daemon keeps (journal.onsets). */

#include <fnmatch.h>

#include "brr/v1/alarms.pb-c.h"
#include "client/brrctl/admin/alarms.h"

#define OPTIONS struct alarms_options

struct download {
    struct fsio_writer file;
    struct err err;
};

static bool keep_part(void *ctx, const void *message) {
    struct download *d = ctx;
    const Brr__V1__OnsetPart *part = message;
    return !fsio_writer_write(&d->file, part->data.data, part->data.len, &d->err);
}

/* For the caller's user alone. */
static int fetch_onset(const struct arguments *o, const char *alarm, const char *path) {
    Brr__V1__GetOnsetRequest in = BRR__V1__GET_ONSET_REQUEST__INIT;
    struct download d = {0};
    if (fsio_writer_open(&d.file, path, &d.err))
        return brrctl_fail(&d.err);
    in.alarm_id = (char *)(uintptr_t)alarm;
    int code = fchmod(d.file.fd, 0600) ? brrctl_fail((err_errno(&d.err, errno, "%s", path), &d.err))
                                       : brrctl_follow(o, "/brr.v1.Alarms/GetOnset", &in.base, keep_part, &d);
    if (code || d.err.code)
        fsio_writer_abort(&d.file);
    else
        fsio_writer_commit(&d.file, &d.err);
    if (code || d.err.code)
        return code ? code : brrctl_fail(&d.err);
    printf("%s: %lld bytes\n", path, (long long)d.file.written_bytes);
    return 0;
}

int alarms_eeg(const struct arguments *o) {
    if (!own(o)->output) {
        fprintf(stderr, "brrctl: expected `brrctl alarms eeg ALARM --output FILE.edf`\n");
        return EXIT_USAGE;
    }
    return fetch_onset(o, o->args[1], own(o)->output);
}

Brr__V1__ListOnsetsResponse *alarms_onsets(const struct arguments *o, int64_t since_ms, int *ret_code) {
    Brr__V1__ListOnsetsRequest in = BRR__V1__LIST_ONSETS_REQUEST__INIT;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, ret_code);
    struct brr_error err = {0};
    in.since_ms = since_ms;
    Brr__V1__ListOnsetsResponse *out = client ? brrctl_ask(client, "/brr.v1.Alarms/ListOnsets", &in.base, &err) : NULL;
    if (client && !out && err.code != BRR_UNSUPPORTED) /* an earlier version of the daemon keeps none */
        *ret_code = brrctl_fail_call(&err);
    if (out && out->left_out)
        fprintf(stderr,
                "brrctl: the newest %zu files of EEG are counted or written here (older: %lld); `brrctl alarms eeg ALARM` fetches "
                "one\n",
                out->n_onsets, (long long)out->left_out);
    return out;
}

void alarms_plain_name(char *name) {
    for (char *p = name; *p; p++)
        *p = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._", *p) ? *p : '-';
    name[0] = name[0] == '.' ? '-' : name[0];
}

int alarms_export_edf(const struct arguments *o, int64_t since_ms) {
    int code = 0;
    size_t n = 0;
    struct err err;
    OWNED_ANSWER Brr__V1__ListOnsetsResponse *kept = alarms_onsets(o, since_ms, &code);
    if (kept && fsio_mkdirs(own(o)->output, &err))
        return brrctl_fail(&err);
    for (size_t i = 0; kept && !code && i < kept->n_onsets; i++) {
        const Brr__V1__Onset *onset = kept->onsets[i];
        char name[256], path[4096];
        if (own(o)->bed && fnmatch(own(o)->bed, onset->bed, 0))
            continue;
        str_format(name, sizeof name, "%.100s_%s.edf", *onset->bed ? onset->bed : "stream", onset->alarm_id);
        alarms_plain_name(name);
        n++;
        if (fsio_join(path, sizeof path, own(o)->output, name, &err))
            code = brrctl_fail(&err);
        else if (fsio_exists(path) && !o->force)
            fprintf(stderr, "brrctl: %s is there already; --force fetches it again\n", path);
        else if ((code = fetch_onset(o, onset->alarm_id, path)) == EXIT_NOT_FOUND)
            code = 0; /* it was removed for a newer one since the list; fetch_onset has said so */
    }
    if (!code && !n)
        fprintf(stderr, "brrctl: no EEG of an alarm of this time is kept (journal.onsets); nothing was written\n");
    return code;
}
