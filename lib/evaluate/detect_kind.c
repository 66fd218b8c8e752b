#include "evaluate/detect_kind.h"

#include "base/counted.h"
#include "eeg/events.h"
#include "evaluate/task_eeg.h"

#define C(field) offsetof(struct detect_config, field)

static const struct option rows[] = {
    {"detect.model", OPTION_MODEL, C(model), NULL, 0, 0, NULL,
     "job:ID, job:ID@best, store://NAME/KEY, a served or built-in name, or a model file"},
    {"detect.on", OPTION_F64, C(on), "0", 0, 0.9999, NULL, "probability that begins an event; 0 = the model's"},
    {"detect.off", OPTION_F64, C(off), "0", 0, 0.9999, NULL,
     "probability that ends an event; 0 = the model's, but at most detect.on"},
    {"detect.format", OPTION_ENUM, C(format), "tsv", 0, 0, EVENTS_NAMES,
     "format of the events files: tsv, edf+ (annotations), mne (text), csv_bi, json"},
    {"detect.precision", OPTION_ENUM, C(precision), "fp32", 0, 0, TASK_PRECISIONS,
     "bf16: refused if the logits differ more from fp32 than the model allows; auto: bf16 on a GPU where the model allows it, else "
     "fp32"},
};
static const struct option_table own_keys = OPTION_TABLE(rows);
static const struct kind_keys keys[] = {{&job_data_source_keys, C(data)}, {&own_keys, 0}, {NULL, 0}};

static int read_config(struct jobfile *job, struct arena *arena, struct err *err) {
    struct detect_config *c = job->config;
    if (c->on > 0 && c->off > c->on)
        return err_set(err, ERR_INVALID, "%s: detect.off %g: expected at most detect.on, %g", job->file, c->off, c->on);
    int rc = job_data_read(job, &c->data, arena, err);
    c->data.labels = "none"; /* what others found in these recordings is not looked at */
    c->data.unlabeled = "background";
    return rc;
}

static void summarise(const struct json *result, char *buf, size_t size) {
    str_format(buf, size, "%s in %s", counted(json_i64(json_get(result, "events"), 0), "event").text,
               counted(json_i64(json_get(result, "recordings"), 0), "recording").text);
}

const struct task_kind kind_detect = {
    .name = "detect",
    .help = "finds seizures in recordings with a model, an events file for each",
    .keys = keys,
    .recordings = KIND_RECORDINGS_OR_ONE,
    .infers = true,
    .events = true,
    .fixed = "model, windows, filters and thresholds (but for detect.on and detect.off) come from its model",
    .config_bytes = sizeof(struct detect_config),
    .config = read_config,
    .summary = summarise,
};
