/* tune MODEL DIR: labelled recordings through a model, by an evaluate job of the daemon that chooses thresholds as a validation
 * does, and alarm rules for rates of false alarms; the model with these thresholds becomes a new file here. */

#include "base/counted.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/seen.h"
#include "client/brrctl/output.h"
#include "detect/alarms.h"
#include "detect/retune.h"
#include "eeg/labels.h"
#include "score/interval.h"
#include "store/safetensors.h"

/* The options of tune. */
struct tune_options {
    const char *output;
    double target_fa;
    const char *labels;
    struct argument_list seizure;
    const char *unlabeled, *dataset;
    double lookback_s, alarm_hop_s, alarm_latch_s;
};
#define OPTIONS struct tune_options
static const struct argument rows[] = {
    OUTPUT("--output", output, "FILE.safetensors", "the new model file", .alias = "--out"),
    NUMBER("--target-fa", target_fa, "N", "false alarms per 24 h to stay within, if some thresholds do; default: none", 0, 1000),
    CHOICE("--labels", labels, labels_names, "format of the labels; default auto"),
    LIST("--seizure", seizure, "PATTERN",
         "also a type or text of seizures, such as \"anfall*\", as data.seizure_labels; may be repeated"),
    CHOICE("--unlabeled", unlabeled, "error|background|skip", "treatment of recordings without labels; default error"),
    TEXT("--dataset", dataset, "NAME", "the dataset of the recordings, as data.dataset: people of another one are others"),
    NUMBER("--lookback", lookback_s, "S",
           "an event begins at most this long before the on threshold, where the probability rose to the off threshold; default 60",
           0, 3600),
    NUMBER("--alarm-hop", alarm_hop_s, "S",
           "seconds between alarm decisions, a divisor of the model's hop; 0 = no alarm thresholds; default 5", 0, 120),
    NUMBER("--alarm-latch", alarm_latch_s, "S", "an alarm stays on for at least this long; default 60", 0, 3600),
};

enum { PATH_SIZE = 4096, JOB_BYTES = 64 << 10, ORIGIN_BYTES = 4096 };

/* Counts of events under a pair of thresholds. */
struct tuned_row {
    double on, off, seizures, found, false_events, f1, per_24h;
};

/* The job's result: on and off are the thresholds in force. */
struct tuned {
    double on, off, lookback_s, hours, seizures, found, false_events, f1;
    int64_t recordings;
    struct alarm_sets alarms;
    struct tuned_row before;   /* the model's own thresholds on these recordings */
    struct outputs_model seen; /* seen and patients alone */
    char model_sha256[DIGEST_HEX_SIZE];
    const char *selected; /* the people of these recordings, as selected.json of the job names them */
};

/* A job file; what JSON writes is YAML. */
static int write_job(const struct arguments *o, const char *model, struct str *text, struct err *err) {
    char path[PATH_SIZE], source[PATH_SIZE + 8];
    bool url = strstr(o->args[1], "://") != NULL;
    struct json_writer w = json_to(text);
    int rc = url ? 0 : fsio_absolute(path, sizeof path, o->args[1], err);
    if (rc)
        return rc;
    if (!url && !fsio_is_dir(path))
        return err_set(err, ERR_NOT_FOUND, "there is no folder %s; expected a folder of labelled recordings or store://NAME/prefix",
                       o->args[1]);
    str_format(source, sizeof source, "%s%s", url ? "" : "file://", url ? o->args[1] : path);
    json_begin_object(&w, NULL);
    json_put_str(&w, "kind", "evaluate");
    json_begin_object(&w, "data");
    json_put_str(&w, "source", source);
    if (own(o)->labels)
        json_put_str(&w, "labels", own(o)->labels);
    JSON_ARRAY(&w, "seizure_labels", own(o)->seizure.items, own(o)->seizure.n);
    if (own(o)->unlabeled)
        json_put_str(&w, "unlabeled", own(o)->unlabeled);
    if (own(o)->dataset)
        json_put_str(&w, "dataset", own(o)->dataset);
    json_end(&w, '}');
    json_begin_object(&w, "evaluate");
    json_put_str(&w, "checkpoint", model);
    json_put_str(&w, "threshold", "auto");
    if (!isnan(own(o)->target_fa))
        json_put_f64(&w, "target_fa_per_24h", own(o)->target_fa);
    if (!isnan(own(o)->lookback_s))
        json_put_f64(&w, "lookback_s", own(o)->lookback_s);
    if (!isnan(own(o)->alarm_hop_s))
        json_put_f64(&w, "alarm_hop_s", own(o)->alarm_hop_s);
    if (!isnan(own(o)->alarm_latch_s))
        json_put_f64(&w, "alarm_latch_s", own(o)->alarm_latch_s);
    json_put_i64(&w, "plots", 0);
    json_end(&w, '}');
    json_end(&w, '}');
    return 0;
}

static bool on_selected(void *text, const void *message) {
    const Brr__V1__JobFilePart *part = message;
    str_append(text, (const char *)part->data.data, part->data.len);
    return true;
}

static int fetch_selected(const struct arguments *o, char *id, struct str *text) {
    Brr__V1__JobFilesRequest in = BRR__V1__JOB_FILES_REQUEST__INIT;
    char name[] = "selected.json", *names[] = {name};
    in.id = id;
    in.patterns = names;
    in.n_patterns = 1;
    return brrctl_follow(o, "/brr.v1.Jobs/Files", &in.base, on_selected, text);
}

static int evaluate(const struct arguments *o, const char *model, struct brrctl_end *end, struct str *selected) {
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    struct str text = str_of(JOB_BYTES);
    static const char key[] = "data.unlabeled";
    struct err err;
    char id[64];
    int code = write_job(o, model, &text, &err) ? brrctl_fail(&err) : 0;
    file.yaml = (char *)(uintptr_t)str_cstr(&text);
    file.name = "tune";
    if (!code)
        code = brrctl_queue(o, &file, NULL, id, sizeof id);
    str_done(&text);
    if (!code)
        code = brrctl_watch(o, id, end);
    if (!code && end->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        code = fetch_selected(o, id, selected);
    if (code || end->state == BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED)
        return code;
    /* The job's reason names the key of a job file; here the option sets it. */
    const char *cut = strstr(end->reason, key), *rest = cut ? cut + strlen(key) : "";
    fprintf(stderr, "brrctl: job %s %s%s%.*s%s%s; no model was written\n", id, brr_job_state_name((int)end->state),
            *end->reason ? ": " : "", cut ? (int)(cut - end->reason) : (int)strlen(end->reason), end->reason,
            cut ? "--unlabeled" : "", rest);
    return EXIT_FAILED;
}

static struct tuned_row read_row(const struct json *j) {
    struct tuned_row r = {.f1 = json_f64(json_get(j, "event_f1"), NAN),
                          .per_24h = json_f64(json_get(j, "false_alarms_per_24h"), NAN)};
    JSON_TAKE(j, r, on, off, seizures, found, false_events);
    return r;
}

static int read_result(const char *text, struct tuned *ret, struct err *err) {
    struct json *json = NULL;
    int rc = json_parse(text, strlen(text), "the result of the job", &json, err);
    if (rc)
        return rc;
    *ret = (struct tuned){.on = json_f64(json_get(json, "threshold_on"), NAN),
                          .off = json_f64(json_get(json, "threshold_off"), NAN),
                          .lookback_s = json_f64(json_get(json, "lookback_s"), 0),
                          .hours = json_f64(json_get(json, "hours"), 0),
                          .seizures = json_f64(json_get(json, "seizures"), 0),
                          .found = json_f64(json_get(json, "found"), 0),
                          .false_events = json_f64(json_get(json, "false_events"), 0),
                          .f1 = json_f64(json_get(json, "event_f1"), NAN),
                          .before = read_row(json_get(json, "before"))};
    JSON_TAKE(json, *ret, model_sha256, recordings);
    ret->seen = (struct outputs_model){.seen = (int)json_i64(json_get(json, "seen_patients"), -1),
                                       .patients = (int)json_i64(json_get(json, "patients"), 0)};
    rc = alarm_sets_from_json(json_get(json, "alarm_sets"), &ret->alarms, err);
    json_free(json);
    if (rc)
        return err_wrap(err, "the result of the job");
    if (!(ret->found > 0))
        return err_set(err, ERR_PRECONDITION, "no pair of thresholds finds any of the %s in %s; no model was written",
                       counted((int64_t)ret->seizures, "seizure").text, counted(ret->recordings, "recording").text);
    return 0;
}

/* The model itself, beside the file to be; it must be the one that the job ran. */
static int fetch(const struct arguments *o, const char *model, const struct tuned *t, char part[PATH_SIZE], struct err *err) {
    struct brrctl_fetched file;
    int code = brrctl_fetch_model(o, model, part, &file);
    if (code)
        return code;
    if (!strcmp(file.sha256, t->model_sha256))
        return 0;
    unlink(part);
    err_set(err, ERR_ABORTED, "%s was replaced while its thresholds were chosen (SHA-256 %.12s, now %.12s); run tune again", model,
            t->model_sha256, file.sha256);
    return brrctl_fail(err);
}

static void put_row(struct json_writer *w, const char *key, const struct tuned_row *row) {
    json_begin_object(w, key);
    JSON_MEMBERS(w, *row, on, off, seizures, found, false_events);
    json_put_f64(w, "event_f1", row->f1);
    json_put_f64(w, "false_alarms_per_24h", row->per_24h);
    json_end(w, '}');
}

/* The thresholds recorded in the model file. */
static void write_origin(const struct tuned *t, struct str *text) {
    struct json_writer w = json_object_to(text);
    json_put_str(&w, "from_sha256", t->model_sha256);
    JSON_MEMBERS(&w, *t, recordings, hours, seizures, found, false_events);
    json_end(&w, '}');
}

static int write_model(const struct arguments *o, const char *model, const struct tuned *t, char sha256[DIGEST_HEX_SIZE]) {
    char part[PATH_SIZE];
    struct str origin = str_of(ORIGIN_BYTES);
    struct err err;
    if (!str_format(part, sizeof part, "%s.part", own(o)->output)) {
        err_set(&err, ERR_RANGE, "the path of --out is too long");
        return brrctl_fail(&err);
    }
    int code = fetch(o, model, t, part, &err);
    if (code)
        return code;
    write_origin(t, &origin);
    const struct retune retune = {SAME_MEMBERS(*t, on, off, lookback_s), .alarms = &t->alarms, .origin = str_cstr(&origin),
                                  .patients = t->selected};
    if (retune_model(part, own(o)->output, &retune, sha256, &err))
        code = brrctl_fail(&err);
    str_done(&origin);
    unlink(part);
    return code;
}

/* ---- what it says ---- */

static struct interval rate_of(const struct tuned *t) {
    struct interval i = interval_count(t->false_events);
    return (struct interval){i.low * 24 / t->hours, i.high * 24 / t->hours};
}

static void put_interval(struct json_writer *w, const char *key, struct interval i) {
    json_begin_array(w, key);
    json_put_f64(w, NULL, i.low);
    json_put_f64(w, NULL, i.high);
    json_end(w, ']');
}

static void print_json(const struct arguments *o, const struct tuned *t, const char *sha256) {
    struct json_writer *w = output_begin();
    json_put_str(w, "model", o->args[0]);
    json_put_str(w, "model_sha256", t->model_sha256);
    json_put_f64(w, "threshold_on", t->on);
    json_put_f64(w, "threshold_off", t->off);
    JSON_MEMBERS(w, *t, lookback_s, recordings, hours, seizures, found, false_events);
    json_put_f64(w, "event_f1", t->f1);
    json_put_f64(w, "sensitivity", t->found / t->seizures);
    put_interval(w, "sensitivity_95", interval_share(t->found, t->seizures));
    json_put_f64(w, "false_alarms_per_24h", t->false_events * 24 / t->hours);
    put_interval(w, "false_alarms_per_24h_95", rate_of(t));
    alarm_sets_to_json(&t->alarms, w, "alarm_sets");
    json_put_str(w, "selected_on", "these recordings");
    put_row(w, "before", &t->before);
    seen_json(&t->seen, w);
    json_put_str(w, "output", own(o)->output);
    json_put_str(w, "sha256", sha256);
    output_end(w);
}

/* One line for each rate of false alarms; those that no rule reaches are named. */
static void print_alarms(const struct alarm_sets *sets) {
    for (int i = 0; i < sets->n; i++) {
        const struct alarm_set *s = &sets->sets[i];
        char delay[24] = "-"; /* all alarms came before their seizures */
        if (isfinite(s->delay_p50_s))
            str_format(delay, sizeof delay, "%.1f s", s->delay_p50_s);
        if (!i)
            puts("alarms      --alarm-rate  on      off     onset   found (95 %)          false in 24 h (95 %)  worst patient  "
                 "delay p50");
        printf("            %-12g  %-6.4f  %-6.4f  %4.2f s  %4.2f (%.2f to %.2f)   %5.2f (%.2f to %.2f)   %6.2f         %s\n",
               s->rate, s->rule.on, s->rule.off, (double)s->rule.min_onset / 256, s->sensitivity, s->sensitivity_low,
               s->sensitivity_high, s->false_alarms_per_24h, s->false_alarms_low, s->false_alarms_high,
               s->worst_patient_false_alarms_per_24h, delay);
    }
    if (sets->n < ALARM_RATES)
        printf("            no rule finds a seizure within %g false alarms in 24 h on these recordings\n",
               alarm_rates[ALARM_RATES - 1 - sets->n]);
}

static void print_before(const struct tuned *t) {
    const struct tuned_row *b = &t->before;
    if (isnan(b->on))
        return;
    printf("before      %.4g on, %.4g off: found %.0f of %.0f, %.0f false, %.2f in 24 h, event F1 %.3f\n", b->on, b->off, b->found,
           b->seizures, b->false_events, b->per_24h, b->f1);
    if (b->f1 > t->f1)
        puts("            They are better on these recordings. The rule takes the middle of all good pairs, which other patients'\n"
             "            probabilities leave least often (docs/scores.md); keep MODEL where these recordings are what counts.");
}

static void print_text(const struct arguments *o, const struct tuned *t, const char *sha256) {
    struct interval share = interval_share(t->found, t->seizures), rate = rate_of(t);
    char words[64];
    printf("thresholds  %.4g on, %.4g off, by event F1 %.3f on %s, %.2f hours, %s\n", t->on, t->off, t->f1,
           counted(t->recordings, "recording").text, t->hours, counted((int64_t)t->seizures, "seizure").text);
    printf("found       %.0f of %.0f seizures: sensitivity %.3f (95 %% interval %.3f to %.3f)\n", t->found, t->seizures,
           t->found / t->seizures, share.low, share.high);
    printf("false       %s: %.2f in 24 h (95 %% interval %.2f to %.2f)\n", counted((int64_t)t->false_events, "event").text,
           t->false_events * 24 / t->hours, rate.low, rate.high);
    print_before(t);
    if (!(own(o)->alarm_hop_s <= 0))
        print_alarms(&t->alarms);
    printf("model       %s, SHA-256 %.12s\n", own(o)->output, sha256);
    if (*seen_words(&t->seen, words))
        printf("people      %s: the model was trained or selected on them\n", words);
    puts("These thresholds were chosen on these recordings, so the figures flatter them; test them on other patients.");
    printf("next: brrctl detect RECORDINGS --model %s --out DIR, or brrctl load NAME %s\n", own(o)->output, own(o)->output);
}

static int cmd_tune(const struct arguments *o) {
    char model[PATH_SIZE], sha256[DIGEST_HEX_SIZE];
    struct brrctl_end end = {0};
    struct tuned tuned;
    struct err err;
    OWNED(str_done) struct str selected = str_of(SAFETENSORS_MAX_HEADER);
    if (!own(o)->output || !str_ends(own(o)->output, ".safetensors")) {
        fputs("brrctl: tune needs --out FILE.safetensors: the model with its new thresholds\n", stderr);
        return EXIT_USAGE;
    }
    brrctl_ref(o->args[0], model, sizeof model);
    if (fsio_mkdirs_above(own(o)->output, &err))
        return brrctl_fail(&err);
    int code = evaluate(o, model, &end, &selected);
    if (!code && read_result(end.result, &tuned, &err))
        code = brrctl_fail(&err);
    tuned.selected = selected.len ? str_cstr(&selected) : NULL;
    if (!code && !tuned.selected)
        fputs("brrctl: note: an older daemon does not say whose recordings these are, nor does the copy\n", stderr);
    if (!code)
        code = write_model(o, model, &tuned, sha256);
    if (code)
        return code;
    output_clear();
    if (o->json)
        print_json(o, &tuned, sha256);
    else
        print_text(o, &tuned, sha256);
    return 0;
}

BRRCTL_COMMAND(
    tune, "MODEL DIR", ARGUMENTS(rows), cmd_tune, "choose a model's thresholds on labelled recordings; write a new model file",
    "MODEL: a served or built-in name, job:ID, store://NAME/KEY or a model file. DIR: a folder, or store://NAME/prefix. The "
    "daemon runs the\n"
    "recordings as an evaluate job, and chooses the thresholds as a validation does: by event F1, or with --target-fa the "
    "most\n"
    "sensitive pair within so many false alarms. MODEL itself stays as it is. One pair only: stream and detect --on --off.\n"
    "The new file also has rules for alarms: stream and detect --alarm-rate 1, 5 or 10 (false alarms in 24 h).\n"
    "example: brrctl tune job:train-260131-1 /data/labelled --out tuned.safetensors");
