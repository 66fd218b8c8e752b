/* estimate_manifest (estimate.h) has a file of its own: it needs what runs tasks, and the client, which reads jobs, has none of
 * that. */

#include "evaluate/estimate_manifest.h"
#include "base/counted.h"
#include "evaluate/task_eeg.h"
#include "windows/manifest.h"
#include "windows/patients.h"
#include "windows/window.h"
#include "work/job_data.h"

enum { BAD_NAMED = 3 };

static void tell_data(const struct estimate_config *config, const struct manifest *m) {
    char bad[600], line[700];
    double hours = 0;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        struct recording_info info;
        if (!manifest_entry(m, i)->recording)
            continue;
        recording_info(manifest_entry(m, i)->recording, &info);
        hours += recording_recorded_s(&info) / 3600;
    }
    for (int i = 0; i < config->job->data->n_sources; i++)
        estimate_fact(config, config->job->data->sources[i].name, "%s", config->job->data->sources[i].root);
    if (!config->job->data->n_sources)
        estimate_fact(config, "data", "%s", config->data_root);
    estimate_fact(config, "hours", "%.2f", hours);
    if (patients_unnamed(m, line, sizeof line) && config->notice)
        config->notice(config->ctx, line);
    int64_t n_bad = manifest_describe_bad(m, BAD_NAMED, bad, sizeof bad);
    if (!n_bad)
        return;
    estimate_fact(config, "cannot be used", "%s", counted(n_bad, "recording").text);
    str_format(line, sizeof line, "%s%s", bad,
               config->job->data->fail_on_bad_file ? "; the job would fail (data.on_bad_file: fail)" : "");
    if (config->notice)
        config->notice(config->ctx, line);
}

static bool go_on(void *ctx, int64_t done, int64_t total, const char *path) {
    const struct estimate_config *config = ctx;
    (void)done, (void)total, (void)path;
    return !estimate_stopped(config, NULL);
}

int estimate_manifest(const struct estimate_config *config, const struct modelfile *file, struct manifest **ret, struct err *err) {
    struct task_env env = {.data_root = config->data_root, .cache_dir = config->cache_dir, .mirror = config->mirror};
    struct manifest_config manifest = task_manifest_config(config->job, &env, file);
    manifest.fail_on_bad_file = false;
    int rc = manifest_open(&manifest, go_on, (void *)(uintptr_t)config, ret, err);
    if (rc)
        return rc;
    tell_data(config, *ret);
    return 0;
}
