#include "evaluate/evaluate_kind.h"

#include "base/counted.h"
#include "detect/seizure.h"
#include "evaluate/task_eeg.h"
#include "score/score.h"

#define C(field) offsetof(struct evaluate_config, field)

static const struct option rows[] = {
    {"evaluate.checkpoint", OPTION_MODEL, C(checkpoint), NULL, 0, 0, NULL,
     "job:ID, job:ID@best, store://NAME/KEY, a served or built-in name, or a model file"},
    {"evaluate.split", OPTION_ENUM, C(split), "all", 0, 0, "all|train|dev|eval", "evaluate recordings below this folder, or all"},
    {"evaluate.threshold", OPTION_ENUM, C(threshold), "model", 0, 0, "model|auto",
     "auto: choose the thresholds on these recordings as a validation does (`brrctl tune`)"},
    {"evaluate.target_fa_per_24h", OPTION_F64, C(target_fa_per_24h), "0", 0, 1000, NULL,
     "with threshold auto: false alarms per 24 h to stay within if some pair of thresholds does; 0 = no target"},
    {"evaluate.lookback_s", OPTION_F64, C(lookback_s), "60", 0, 3600, NULL,
     "with threshold auto: an event begins at most this long before the on threshold was reached, where the probability rose to "
     "the off threshold"},
    {"evaluate.patients", OPTION_ENUM, C(unseen), "all", 0, 0, "all|unseen",
     "unseen: leave out the patients that the model was trained, validated or fine-tuned on, which its file names by hashes"},
    {"evaluate.not_seen", OPTION_BOOL, C(not_seen), "false", 0, 0, NULL,
     "true declares that the model has seen none of these people, whatever their names; report.json repeats it"},
    {"evaluate.precision", OPTION_ENUM, C(precision), "fp32", 0, 0, TASK_PRECISIONS,
     "bf16: refused if the logits differ more from fp32 than the model allows; auto: bf16 on a GPU where the model allows it, else "
     "fp32"},
    {"evaluate.alarm_hop_s", OPTION_F64, C(alarm_hop_s), "5", 0, 120, NULL,
     "interval at which alarms are decided and scored; must divide the model's hop (if not set and 5 does not divide it: the hop); "
     "0 = no alarms"},
    {"evaluate.alarm_rate", OPTION_F64, C(alarm_rate), "0", 0, 10, NULL,
     "1, 5 or 10: score the alarms by the model's own rule for so many false alarms per 24 h; 0 = by the thresholds of events"},
    {"evaluate.alarm_latch_s", OPTION_F64, C(alarm_latch_s), "60", 0, 3600, NULL,
     "an alarm stays on for at least this long in the alarm sets that are chosen for 1, 5 and 10 false alarms per 24 h"},
    {"evaluate.plots", OPTION_I64, C(plots), "20", 0, 100000, NULL, "number of recordings that are plotted (SVG)"},
    {"evaluate.baselines", OPTION_STRINGS, C(baselines), "[line_length, band_power]", 0, 0, NULL,
     "built-in models whose scores stand beside the model's; []: none"},
};
static const struct option_table own_keys = OPTION_TABLE(rows);
static const struct kind_keys keys[] = {
    {&job_data_source_keys, C(data)}, {&job_data_label_keys, C(data)}, {&own_keys, 0}, {NULL, 0}};

static int read_config(struct jobfile *job, struct arena *arena, struct err *err) {
    struct evaluate_config *c = job->config;
    for (size_t i = 0; i < c->baselines.count; i++)
        if (seizure_feature_from_name(c->baselines.items[i]) == SEIZURE_TYPES)
            return err_set(err, ERR_INVALID,
                           "%s: evaluate.baselines: there is no built-in model '%.40s'; expected line_length, band_power, ward",
                           job->file, c->baselines.items[i]);
    if (c->baselines.count > EVALUATE_MAX_BASELINES)
        return err_set(err, ERR_INVALID, "%s: evaluate.baselines has %zu names; expected at most %d", job->file, c->baselines.count,
                       EVALUATE_MAX_BASELINES);
    return job_data_read(job, &c->data, arena, err);
}

static void summarise(const struct json *result, char *buf, size_t size) {
    const struct json *first = json_at(json_get(result, "baselines"), 0), *event = json_get(first, "event");
    char seen[80] = "", beside[80] = "", f1[32], auroc[32];
    int64_t patients = json_i64(json_get(result, "seen_patients"), 0);
    if (patients > 0)
        str_format(seen, sizeof seen, "; the model was trained or selected on %lld of the patients", (long long)patients);
    if (event)
        str_format(beside, sizeof beside, "; %s alone: event F1 %s, AUROC %s", json_str(json_get(first, "name"), ""),
                   score_text(json_f64(json_get(event, "f1"), NAN), 3, f1),
                   score_text(json_f64(json_get(first, "auroc"), NAN), 3, auroc));
    str_format(buf, size, "event F1 %s of %s, %.1f false alarms per 24 h over %s%s%s",
               score_text(json_f64(json_get(result, "event_f1"), NAN), 3, f1),
               counted(json_i64(json_get(result, "seizures"), 0), "seizure").text,
               json_f64(json_get(result, "false_alarms_per_24h"), NAN),
               counted(json_i64(json_get(result, "recordings"), 0), "recording").text, beside, seen);
}

const struct task_kind kind_evaluate = {
    .name = "evaluate",
    .help = "scores a model against labelled recordings",
    .keys = keys,
    .recordings = KIND_RECORDINGS,
    .infers = true,
    .fixed = "model, windows, filters and thresholds come from its checkpoint",
    .config_bytes = sizeof(struct evaluate_config),
    .config = read_config,
    .summary = summarise,
};
