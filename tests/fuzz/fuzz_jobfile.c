/* Any text as a job file, as Submit takes it: up to the first NUL the file, then `--set` assignments ended by NULs each. Refused
 * with a message, or a job that keeps what its header promises. Some sizes get a small arena, so that exhaustion is met anywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/jobfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_OVERRIDES = 16 };

static void on_notice(void *ctx, const char *text) {
    *(size_t *)ctx += strlen(text);
    if (!*text)
        abort();
}

static void check(const struct jobfile *job) {
    const struct device_info cpu = {.name = "cpu"};
    size_t told = 0;
    if (!job->file || !job->yaml || !job->root || !job->kind_name || !job->name || !job->data.source || !job->data.labels ||
        !job->data.unlabeled || !job->data.montage || !job->preset || !job->training.stop_metric)
        abort();
    if (strcmp(job->kind_name, "train") && strcmp(job->kind_name, "evaluate"))
        abort();
    if (job->model.window % 16 || job->model.window < 16 || !(job->data.hop_s > 0) || !(job->data.hop_s <= job->data.window_s))
        abort();
    if (seizure_config_check(&job->model, NULL) || events_config_check(&job->events, NULL))
        abort();
    if (job->training.micro_batch_size < 1 || job->training.batch_size % job->training.micro_batch_size)
        abort();
    jobfile_notices(job, on_notice, &told);
    (void)jobfile_precision(job, &cpu);
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
