/* Any text as a job file, as Submit takes it: up to the first NUL the file, then `--set` assignments ended by NULs each. Refused
 * with a message, or a job that keeps what its header promises. Some sizes get a small arena, so that exhaustion is met anywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kernels/device.h"
#include "train/train_kind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_OVERRIDES = 16 };

static void on_notice(void *ctx, const char *text) {
    *(size_t *)ctx += strlen(text);
    if (!*text)
        abort();
}

static void check_train(const struct train_config *c) {
    const struct device_info cpu = {.name = "cpu"};
    if (!c->data.labels || !c->data.unlabeled || !c->data.montage || !c->preset || !c->training.stop_metric)
        abort();
    if (c->model.window % 16 || c->model.window < 16 || !(c->data.hop_s > 0) || !(c->data.hop_s <= c->data.window_s))
        abort();
    if (seizure_config_check(&c->model, NULL) || events_config_check(&c->events, NULL))
        abort();
    if (c->training.micro_batch_size < 1 || c->training.batch_size % c->training.micro_batch_size)
        abort();
    (void)train_precision(c, &cpu);
}

static void check(const struct jobfile *job) {
    struct jobfile_ref refs[JOBFILE_MAX_REFS];
    size_t told = 0;
    int n = jobfile_refs(job, refs);
    if (!job->file || !job->yaml || !job->root || !job->kind || !job->name || !job->config || !job->data || !job->data->source)
        abort();
    for (const char *c = job->name; *c; c++)
        if ((unsigned char)*c < ' ')
            abort();
    for (int i = 0; i < n; i++)
        if (!refs[i].key || !refs[i].value)
            abort();
    if (!strcmp(job->kind->name, "train"))
        check_train(job->config);
    else if (!n || job->checkpoint.every_ms) /* a model is required, and they have no checkpoints */
        abort();
    jobfile_notices(job, on_notice, &told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *overrides[MAX_OVERRIDES];
    int n = 0;
    char *text = malloc(size + 2);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = text[size + 1] = '\0';
    for (size_t at = strlen(text) + 1; at < size && n < MAX_OVERRIDES; at += strlen(text + at) + 1)
        overrides[n++] = text + at;
    struct arena arena;
    struct jobfile job;
    struct err err = {0};
    arena_init(&arena, size % 8 ? 16u << 20 : 512 + size / 8 % 64 * 512);
    int rc = jobfile_parse(text, "fuzz.yaml", overrides, n, &arena, &job, &err);
    if (!rc)
        check(&job);
    else if (err.code != rc || !err.message[0])
        abort();
    arena_done(&arena);
    free(text);
    return 0;
}
