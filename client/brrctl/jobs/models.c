/* models [NAME], load NAME REF, load NAME --previous, unload NAME. */

#include "base/counted.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

#define ROW "%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s"

struct load_options {
    const char *device;
    bool previous;
};
#define OPTIONS struct load_options
static const struct argument load_rows[] = {
    TEXT("--device", device, "NAME", "the daemon's device that serves it, such as cuda:1; default: every device"),
    FLAG("--previous", previous, "instead of REF: the weights that the name had before, if they are still there"),
};

static const char fields[] =
    "name checkpoint sha256 type preset mixer parameters montage channels rate_hz window_s hop_s threshold_on threshold_off "
    "alarm_rates alarm_hours alarm_false_high device memory_bytes step sessions precision bf16_difference ref most_missing "
    "loads(time_ms ref sha256 principal) card!null tests![]";

/* The row "data" of the page beside a model file that ships with brrd, malloc'd; NULL where this machine has none. */
static char *shipped_data(const char *checkpoint) {
    static const char key[] = "\n| data | ";
    char path[4096];
    size_t len;
    OWNED_MEMORY char *text = NULL;
    if (!str_ends(checkpoint, ".safetensors") ||
        !str_format(path, sizeof path, "%.*s.md", (int)(strlen(checkpoint) - strlen(".safetensors")), checkpoint) ||
        fsio_read_file(path, 1 << 20, &text, &len, NULL))
        return NULL;
    const char *row = strstr(text, key), *end = row ? strstr(row + 1, " |\n") : NULL;
    return end ? strndup(row + strlen(key), (size_t)(end - row) - strlen(key)) : NULL;
}

static void list_model(struct listing *l, const void *model) {
    const Brr__V1__ModelDescription *m = model;
    char memory[32];
    if (!*m->type) /* it loads, or could not be loaded */
        listing_row(l, ROW, m->name, "not loaded", "-", "-", "-", "-", "-", "-", "-", "-", m->checkpoint);
    else
        listing_row(l, ROW, m->name, m->type, m->preset, m->mixer, counted(m->parameters, "").text, m->montage, m->device,
                    m->precision, output_bytes((double)m->memory_bytes, memory, sizeof memory), counted(m->sessions, "").text,
                    m->checkpoint);
}

static void print_counts(const char *title, const struct json *role) {
    printf("  %-11s %s, %.1f h, %s", title, counted(json_i64(json_get(role, "patients"), 0), "patient").text,
           json_f64(json_get(role, "hours"), NAN), counted(json_i64(json_get(role, "seizures"), 0), "seizure").text);
}

/* Figures that the object holds. */
static void print_figures(const struct json *object) {
    static const struct {
        const char *key, *title;
    } figures[] = {{"event_f1", "event F1"},
                   {"event_sensitivity", "sensitivity"},
                   {"false_alarms_per_24h", "false alarms in 24 h"},
                   {"auroc", "AUROC"}};
    char text[32];
    const char *between = "; ";
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double value = json_f64(json_get(object, figures[i].key), NAN);
        if (isfinite(value))
            printf("%s%s %s", between, figures[i].title, output_figure(value, text, sizeof text));
        between = isfinite(value) ? ", " : between;
    }
}

/* Where the model comes from, by its file. */
static void print_card(const char *text) {
    OWNED_POINTER(json_free) struct json *card = NULL;
    if (!*text || json_parse(text, strlen(text), "card", &card, NULL))
        return;
    printf("  trained by  brrd %s\n", json_str(json_get(card, "version"), "?"));
    printf("  source      %s\n", json_str(json_get(card, "source"), "?"));
    print_counts("training", json_get(card, "training"));
    putchar('\n');
    print_counts("validation", json_get(card, "validation"));
    print_figures(json_get(card, "validation"));
    const bool ran = json_bool(json_get(json_get(card, "validation"), "ran"), true); /* older files do not say */
    puts(ran ? " (weights and thresholds were chosen on these patients)" : "; no validation has run yet");
}

static void print_tests(const char *text) {
    OWNED_POINTER(json_free) struct json *tests = NULL;
    if (!*text || json_parse(text, strlen(text), "tests", &tests, NULL))
        return;
    for (size_t i = 0; i < json_count(tests); i++) {
        const struct json *test = json_at(tests, i);
        int64_t seen = json_i64(json_get(test, "seen_patients"), -1);
        printf("  evaluated   by job %s: %.0f recordings, %.1f h", json_str(json_get(test, "job"), "?"),
               json_f64(json_get(test, "recordings"), NAN), json_f64(json_get(test, "hours"), NAN));
        print_figures(test);
        puts(!seen ? " (unseen patients)" : seen > 0 ? " (patients of the training among them)" : "");
    }
}

/* The rules for alarms, and how much their recordings say about them. */
static void print_alarms(const Brr__V1__ModelDescription *m) {
    printf("  alarms      by --alarm-rate");
    for (size_t i = 0; i < m->n_alarm_rates; i++)
        printf("%s %g", i ? "," : "", m->alarm_rates[i]);
    printf(" (false alarms in 24 h), chosen on %.3g h; at 95 %% fewer than", m->alarm_hours);
    for (size_t i = 0; i < m->n_alarm_false_high; i++)
        printf("%s %.3g", i ? "," : "", m->alarm_false_high[i]);
    putchar('\n');
}

static void print_loads(const Brr__V1__ModelDescription *m) {
    for (size_t i = 0; i < m->n_loads; i++) {
        const Brr__V1__ModelLoad *load = m->loads[i];
        char when[32];
        printf("  %-11s %s  %s  %s%s%s\n", i ? "" : "loads",
               load->time_ms ? output_time(load->time_ms, when, sizeof when) : "earlier", load->sha256, load->ref,
               *load->principal ? "  by " : "", load->principal);
    }
}

static void print_details(const void *model) {
    const Brr__V1__ModelDescription *m = model;
    char memory[32];
    printf("%s\n  checkpoint  %s", m->name, m->checkpoint);
    if (m->step)
        printf(" (step %lld)", (long long)m->step);
    putchar('\n');
    if (*m->sha256)
        printf("  sha256      %s\n", m->sha256);
    if (*m->ref)
        printf("  loaded as   %s\n", m->ref);
    printf("  type        %s\n", m->type);
    if (*m->mixer)
        printf("  network     %s, %s, %lld parameters\n", m->preset, m->mixer, (long long)m->parameters);
    printf("  input       %s, %zu channels at %g Hz:", m->montage, m->n_channels, m->rate_hz);
    for (size_t i = 0; i < m->n_channels; i++)
        printf(" %s", m->channels[i]);
    if (m->most_missing)
        printf("; --partial %zu runs it on that many of them", m->n_channels - (size_t)m->most_missing);
    printf("\n  windows     %g s every %g s, thresholds %.4g/%.4g\n", m->window_s, m->hop_s, m->threshold_on, m->threshold_off);
    if (m->n_alarm_rates)
        print_alarms(m);
    print_card(m->card);
    OWNED_MEMORY char *data = shipped_data(m->checkpoint);
    if (data)
        printf("  data        %s\n", data);
    print_tests(m->tests);
    print_loads(m);
    if (!*m->device) {
        puts("  state       not loaded; `brrctl load NAME REF` serves a model, and a stream that names it loads it");
        return;
    }
    printf("  device      %s, %s, %s\n", m->device, output_bytes((double)m->memory_bytes, memory, sizeof memory),
           counted(m->sessions, "session").text);
    printf("  precision   %s", m->precision);
    if (m->bf16_difference > 0)
        printf("; its logits differ from those in f32 by at most %.3g in the test windows", m->bf16_difference);
    putchar('\n');
}

static const struct brrctl_view one_view = {.json = fields, .print = print_details};

/* A note where the name had other weights until now. */
static void tell_replaced(const Brr__V1__ListModelsResponse *before, const Brr__V1__ModelDescription *now) {
    for (size_t i = 0; i < before->n_models; i++) {
        const Brr__V1__ModelDescription *m = before->models[i];
        if (!strcmp(m->name, now->name) && *m->sha256 && strcmp(m->sha256, now->sha256) != 0)
            fprintf(stderr,
                    "brrctl: note: the model %s was replaced: it was %s (SHA-256 %.12s); `brrctl load %s --previous` goes back\n",
                    m->name, m->ref, m->sha256, m->name);
    }
}

int brrctl_load_model(const struct arguments *o, const char *path, const ProtobufCMessage *in) {
    const Brr__V1__ListModelsRequest all = BRR__V1__LIST_MODELS_REQUEST__INIT;
    int code = 0;
    OWNED_ANSWER Brr__V1__ListModelsResponse *before = brrctl_call(o, "/brr.v1.Models/List", &all.base, &code);
    OWNED_ANSWER Brr__V1__ModelDescription *now = before ? brrctl_call(o, path, in, &code) : NULL;
    if (!now)
        return code;
    brrctl_show_items(o, &one_view, (void *const *)&now, 1);
    tell_replaced(before, now);
    return 0;
}

/* By name: detect/builtin.h would link the kernels of networks. */
static bool is_builtin(const char *name) {
    static const char *const names[] = {"ward", "demo", "line_length", "band_power"};
    return STR_AMONG(name, names) >= 0;
}

void brrctl_tell_builtin(const char *name) {
    if (is_builtin(name))
        fprintf(stderr,
                "brrctl: note: %s is also the name of a built-in model; from now on the name means the model that was just loaded, "
                "in every command, until `brrctl unload %s`\n",
                name, name);
}

static int describe(const struct arguments *o) {
    Brr__V1__DescribeModelRequest in = BRR__V1__DESCRIBE_MODEL_REQUEST__INIT;
    char ref[4096];
    in.name = brrctl_ref(o->args[0], ref, sizeof ref);
    return brrctl_show(o, "/brr.v1.Models/Describe", &in.base, &one_view);
}

static int cmd_models(const struct arguments *o) {
    static const struct brrctl_view view = {
        .json = fields,
        .titles = "name|type|preset|mixer|>parameters|montage|device|precision|>memory|>sessions|checkpoint",
        .row = list_model,
        .items = "models",
        .none = "no model is served; built in are ward, demo, line_length and band_power; `brrctl load NAME REF` serves one"};
    const Brr__V1__ListModelsRequest in = BRR__V1__LIST_MODELS_REQUEST__INIT;
    return o->n_args ? describe(o) : brrctl_show(o, "/brr.v1.Models/List", &in.base, &view);
}

static int cmd_load(const struct arguments *o) {
    Brr__V1__LoadModelRequest in = BRR__V1__LOAD_MODEL_REQUEST__INIT;
    const struct load_options *own = o->own;
    char ref[4096] = "";
    if (own->previous == (o->n_args == 2) || !*o->args[0]) {
        fputs("brrctl: load needs NAME REF, or NAME --previous\n", stderr);
        return EXIT_USAGE;
    }
    in.name = (char *)(uintptr_t)o->args[0];
    in.ref = own->previous ? ref : brrctl_ref(o->args[1], ref, sizeof ref);
    in.previous = own->previous;
    in.device = (char *)(uintptr_t)(own->device ? own->device : "");
    int code = brrctl_load_model(o, "/brr.v1.Models/Load", &in.base);
    if (!code && !own->previous && strcmp(o->args[0], o->args[1]) != 0)
        brrctl_tell_builtin(o->args[0]);
    return code;
}

static void print_unloaded(const void *model) {
    printf("%s is no longer served\n", ((const Brr__V1__ModelDescription *)model)->name);
}

static int cmd_unload(const struct arguments *o) {
    static const struct brrctl_view view = {.json = fields, .print = print_unloaded};
    Brr__V1__UnloadModelRequest in = BRR__V1__UNLOAD_MODEL_REQUEST__INIT;
    in.name = (char *)(uintptr_t)o->args[0];
    return brrctl_show(o, "/brr.v1.Models/Unload", &in.base, &view);
}

BRRCTL_COMMAND(models, "[NAME]", &arguments_none, cmd_models, "list served models, or show one in detail",
               "example: brrctl models best");

BRRCTL_COMMAND(
    load, "NAME [REF]", ARGUMENTS(load_rows), cmd_load, "serve a model",
    "REF: as in `brrctl checkpoint promote`. A NAME of a built-in model (ward, demo, line_length, band_power) means the "
    "served model\n"
    "from then on, until `brrctl unload NAME`. `brrctl models NAME` lists its last five loads; --previous goes back to the "
    "newest\n"
    "of other weights than now, by their SHA-256.\n"
    "example: brrctl load best job:train-260131-1");

BRRCTL_COMMAND(unload, "NAME", &arguments_none, cmd_unload, "stop serving a model; open streams finish with it",
               "example: brrctl unload best");
