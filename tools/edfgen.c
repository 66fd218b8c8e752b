/* edfgen: seeded synthetic EEG corpora as EDF+ files with event labels: sub-NN/sub-NN_run-MM_eeg.edf and _events.tsv. The same
 * arguments give the same bytes. */
#include <getopt.h>

#include "base/container.h"
#include "base/counted.h"
#include "base/crew.h"
#include "base/needed.h"
#include "eeg/events.h"
#include "formats/edf_write.h"
#include "tools/edfgen/plan.h"
#include "tools/edfgen/render.h"
#include "windows/bids.h"

enum { MAX_PATIENTS = 9999, MAX_HOURS = 9999, MAX_SEIZURES = 100000, HOUR_S = 3600, PATH_SIZE = 4096 };

struct options {
    const char *out;
    int64_t patients, seizures;
    double hours, suppressed; /* suppressed: share of the time, 0 = no burst suppression */
    uint64_t seed;
    bool bipolar, csv_bi, bids;
    enum style style;
};

static const char USAGE[] =
    "usage: edfgen --out DIR --patients N --hours-per-patient H --seizures-per-patient K --seed S\n"
    "              [--style simple|rich|people|wide|icu] [--montage referential|bipolar] [--labels csv_bi] [--bids] "
    "[--burst-suppression "
    "RATIO]\n"
    "Writes N synthetic patients with H hours (fractions allowed) and K seizures each: 256 Hz EDF+, one run per started hour,\n"
    "DIR/sub-NN/sub-NN_run-MM_eeg.edf with _events.tsv (and .csv_bi when asked for). The same seed gives the same files.\n"
    "--style simple (the default) makes corpora that a small network learns within minutes; rich ones are nearer to a ward: "
    "seizures\n"
    "build up in amplitude and fall in frequency, patients differ in reference and mains, and artefacts of eyes, muscle, "
    "electrodes and\n"
    "movement, interictal spikes and changes of sleep have as much band power as seizures. people: rich ones whose patients have\n"
    "the waking background of healthy adults: amplitude, slope, alpha and muscle as measured. wide ones are rich ones whose "
    "patients "
    "and\n"
    "seizures are of all kinds: rhythms, spikes and waves, low and fast onsets, with muscle and without. icu: wide seizures among\n"
    "periodic discharges and rhythmic delta, which last for minutes and are no seizures.\n"
    "--bids writes a BIDS dataset: DIR/sub-NN/eeg/sub-NN_task-szMonitoring_run-MM_eeg.edf with _events.tsv, _channels.tsv, "
    "_eeg.json and\n"
    "_events.json, and DIR/dataset_description.json and README.\n"
    "With --burst-suppression the recordings are in burst suppression throughout, RATIO (0.5 to 0.95) of the time suppressed; the\n"
    "suppressions are rows of _events.tsv with the eventType 'suppression'. It needs --seizures-per-patient 0.\n";

/* One recording being made. */
struct job {
    const struct options *options;
    const struct patient *patient;
    const struct recording_plan *plan;
    int run;              /* from 0 */
    char stem[PATH_SIZE]; /* DIR/sub-NN/sub-NN_run-MM, in BIDS DIR/sub-NN/eeg/sub-NN_task-szMonitoring_run-MM */
    char subject[16];
};

/* ---- one EDF+C file of one-second records, microvolt in steps of 0.1, with a time-keeping annotation signal ---- */

struct edf_writer {
    struct fsio_writer file;
    int n_signals;
    int64_t record;
};

struct writer_config {
    const char *path, *patient; /* patient: code without blanks */
    int64_t records;
    int start_day, start_hour; /* January 2030 */
    int n_signals;
    const char *labels[ELECTRODES];
};

enum { ANNOTATION_SAMPLES = 16, HEADER_MAX = 256 * (ELECTRODES + 2) };

static int writer_open(struct edf_writer *w, const struct writer_config *config, struct err *err) {
    struct edf_write_signal signals[ELECTRODES + 1];
    char patient[96], recording[96], date[16], time[16];
    OWNED(str_done) struct str header = str_of(HEADER_MAX);
    const int n = config->n_signals;
    for (int s = 0; s < n; s++)
        signals[s] = (struct edf_write_signal){config->labels[s], "synthetic", "uV", "-3276.8", "3276.7", RATE_HZ, NULL};
    signals[n] = edf_write_annotations(ANNOTATION_SAMPLES);
    str_format(patient, sizeof patient, "%s X X %s", config->patient, config->patient);
    str_format(recording, sizeof recording, "Startdate %02d-JAN-2030 X X synthetic", config->start_day);
    str_format(date, sizeof date, "%02d.01.30", config->start_day);
    str_format(time, sizeof time, "%02d.00.00", config->start_hour);
    const struct edf_write_file file = {.patient = patient,
                                        .recording = recording,
                                        .date = date,
                                        .time = time,
                                        .records = config->records,
                                        .record_s = 1,
                                        .signals = signals,
                                        .n_signals = n + 1};
    edf_write_header(&header, &file);
    *w = (struct edf_writer){.n_signals = n};
    int rc = fsio_writer_open(&w->file, config->path, err);
    if (!rc && (rc = fsio_writer_write(&w->file, str_cstr(&header), header.len, err)))
        fsio_writer_abort(&w->file);
    return rc;
}

/* The next second: RATE_HZ samples of each signal; values beyond ±3276.7 µV are clipped. */
static int writer_second(struct edf_writer *w, const float *const *uv, struct err *err) {
    uint8_t record[(ELECTRODES * RATE_HZ + ANNOTATION_SAMPLES) * 2];
    size_t at = 0;
    for (int s = 0; s < w->n_signals; s++) {
        for (int i = 0; i < RATE_HZ; i++) {
            long digital = lrintf(fminf(32767, fmaxf(-32768, uv[s][i] * 10)));
            record[at++] = (uint8_t)(digital & 0xFF);
            record[at++] = (uint8_t)(digital >> 8 & 0xFF);
        }
    }
    memset(record + at, 0, ANNOTATION_SAMPLES * 2);
    char keeper[EDF_WRITE_KEEPER_SIZE];
    memcpy(record + at, keeper, edf_write_keeper((double)w->record++, keeper));
    return fsio_writer_write(&w->file, record, at + ANNOTATION_SAMPLES * 2, err);
}

static int writer_commit(struct edf_writer *w, struct err *err) { return fsio_writer_commit(&w->file, err); }

static void writer_abort(struct edf_writer *w) { fsio_writer_abort(&w->file); }

static int write_signal(const struct job *job, struct err *err) {
    char path[PATH_SIZE + 16], labels[ELECTRODES][24];
    bool bipolar = job->options->bipolar;
    struct writer_config config = {.path = path,
                                   .patient = job->subject,
                                   .records = job->plan->samples / RATE_HZ,
                                   .start_day = 1 + (8 + job->run) / 24 % 28,
                                   .start_hour = (8 + job->run) % 24,
                                   .n_signals = bipolar ? BIPOLAR : ELECTRODES};
    str_format(path, sizeof path, "%s_eeg.edf", job->stem);
    for (int s = 0; s < config.n_signals; s++) {
        if (bipolar)
            str_format(labels[s], sizeof labels[s], "%s-%s", SCALP[DOUBLE_BANANA[s][0]].name, SCALP[DOUBLE_BANANA[s][1]].name);
        else
            str_format(labels[s], sizeof labels[s], "EEG %s-REF", SCALP[s].name);
        config.labels[s] = labels[s];
    }
    struct renderer *renderer = render_new(job->patient, job->plan);
    struct edf_writer writer;
    int rc = writer_open(&writer, &config, err);
    if (rc) {
        render_free(renderer);
        return rc;
    }
    float uv[ELECTRODES][RATE_HZ], pairs[BIPOLAR][RATE_HZ];
    const float *rows[ELECTRODES];
    for (int s = 0; s < config.n_signals; s++)
        rows[s] = bipolar ? pairs[s] : uv[s];
    for (int64_t r = 0; r < config.records && !rc; r++) {
        render_second(renderer, uv);
        for (int s = 0; s < BIPOLAR && bipolar; s++)
            for (int i = 0; i < RATE_HZ; i++)
                pairs[s][i] = uv[DOUBLE_BANANA[s][0]][i] - uv[DOUBLE_BANANA[s][1]][i];
        rc = writer_second(&writer, rows, err);
    }
    render_free(renderer);
    if (rc)
        writer_abort(&writer);
    else
        rc = writer_commit(&writer, err);
    return rc;
}

static struct label_run run_of(int64_t first, int64_t end, const char *code) {
    struct label_run run = {.onset_s = (double)first / RATE_HZ, .end_s = (double)end / RATE_HZ, .confidence = NAN};
    str_copy(run.code, sizeof run.code, code);
    return run;
}

/* The seizures, then the suppressions (a plan has only one of them), into runs; returns how many. */
static size_t list_runs(const struct recording_plan *plan, struct label_run *runs) {
    size_t n = 0;
    for (size_t i = 0; i < plan->n_events; i++) {
        const struct event *e = &plan->events[i];
        if (e->kind == EVENT_SEIZURE)
            runs[n++] = run_of(e->first, e->first + e->length, "sz");
    }
    for (size_t i = 0; plan->bursts && i <= plan->n_bursts; i++) {
        int64_t first = i ? plan->bursts[i - 1].end : 0, end = i < plan->n_bursts ? plan->bursts[i].first : plan->samples;
        runs[n++] = run_of(first, end, "suppression");
    }
    return n;
}

static int write_labels(const struct job *job, struct err *err) {
    char path[PATH_SIZE + 16], start[32];
    OWNED_MEMORY struct label_run *runs = needed(calloc(job->plan->n_events + job->plan->n_bursts + 1, sizeof *runs));
    size_t n = list_runs(job->plan, runs);
    str_format(start, sizeof start, "2030-01-%02d %02d:00:00", 1 + (8 + job->run) / 24 % 28, (8 + job->run) % 24);
    char record_name[64];
    str_format(record_name, sizeof record_name, "%s_eeg", fsio_basename(job->stem));
    struct events_header header = {
        .start_text = start, .recording_s = (double)(job->plan->samples / RATE_HZ), .record_name = record_name};
    str_format(path, sizeof path, "%s_events.tsv", job->stem);
    int rc = events_write(events_format_find("tsv"), path, runs, n, &header, err);
    if (!rc && job->options->csv_bi) {
        str_format(path, sizeof path, "%s_eeg.csv_bi", job->stem);
        rc = events_write(events_format_find("csv_bi"), path, runs, job->plan->bursts ? 0 : n, &header,
                          err); /* it knows seizures only */
    }
    return rc;
}

/* The side files of a BIDS dataset. */
static int write_side_files(const struct job *job, struct err *err) {
    char path[PATH_SIZE + 16];
    struct bids_name name;
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    int rc;
    str_format(path, sizeof path, "%s_eeg.edf", job->stem);
    if ((rc = eegfile_open_header(path, &edf, err)) || (rc = bids_name_of(path, &name, err)))
        return rc;
    return bids_write_recording(job->options->out, &name, eegfile_info(edf), (double)job->patient->mains_hz, err);
}

static int make_recordings(struct job *job, const char *dir, int n, const struct recording_plan *plans, struct err *err) {
    const struct options *o = job->options;
    for (int r = 0, rc; r < n; r++) {
        job->plan = &plans[r];
        job->run = r;
        str_format(job->stem, sizeof job->stem, "%.*s/%s%s_run-%02d", PATH_SIZE - 64, dir, job->subject,
                   o->bids ? "_task-" BIDS_TASK : "", r + 1);
        if ((rc = write_signal(job, err)) || (rc = write_labels(job, err)) || (o->bids && (rc = write_side_files(job, err))))
            return rc;
    }
    return 0;
}

static int64_t seconds_of(const struct options *o) { return llround(o->hours * HOUR_S); }
static int recordings_of(const struct options *o) { return (int)((seconds_of(o) + HOUR_S - 1) / HOUR_S); }

static int make_patient(const struct options *o, int index, struct err *err) {
    int64_t seconds = seconds_of(o);
    int n = recordings_of(o), rc;
    struct patient patient;
    plan_patient(&patient, o->seed, (uint32_t)index, o->style);
    struct job job = {.options = o, .patient = &patient};
    str_format(job.subject, sizeof job.subject, "sub-%02d", index + 1);
    char dir[PATH_SIZE], folder[32];
    str_format(folder, sizeof folder, "%s%s", job.subject, o->bids ? "/eeg" : "");
    if ((rc = fsio_join(dir, sizeof dir - 64, o->out, folder, err)) || (rc = fsio_mkdirs(dir, err)))
        return rc;
    OWNED_MEMORY int64_t *samples = needed(calloc((size_t)n, sizeof *samples));
    OWNED_MEMORY struct recording_plan *plans = needed(calloc((size_t)n, sizeof *plans));
    for (int r = 0; r < n; r++)
        samples[r] = (r + 1 < n ? HOUR_S : seconds - (int64_t)r * HOUR_S) * RATE_HZ;
    if (o->suppressed > 0)
        plan_burst_suppression(&patient, samples, n, o->suppressed, plans);
    else
        rc = plan_recordings(&patient, samples, n, (int)o->seizures, plans, err);
    rc = rc ? rc : make_recordings(&job, dir, n, plans, err);
    for (int r = 0; r < n; r++)
        plan_done(&plans[r]);
    return rc;
}

static bool whole(const char *text, int64_t low, int64_t high, int64_t *ret) {
    return str_to_i64(text, ret) && *ret >= low && *ret <= high;
}

/* 0, or the exit status. */
static bool read_style(const char *text, enum style *ret) {
    static const char *const names[] = {
        [STYLE_SIMPLE] = "simple", [STYLE_RICH] = "rich", [STYLE_PEOPLE] = "people", [STYLE_WIDE] = "wide", [STYLE_ICU] = "icu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            *ret = (enum style)i;
            return true;
        }
    return false;
}

static int parse_options(int argc, char **argv, struct options *o) {
    static const struct option names[] = {{"out", required_argument, NULL, 'o'},
                                          {"patients", required_argument, NULL, 'p'},
                                          {"hours-per-patient", required_argument, NULL, 'h'},
                                          {"seizures-per-patient", required_argument, NULL, 'k'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"montage", required_argument, NULL, 'm'},
                                          {"labels", required_argument, NULL, 'l'},
                                          {"burst-suppression", required_argument, NULL, 'b'},
                                          {"bids", no_argument, NULL, 'B'},
                                          {"style", required_argument, NULL, 'y'},
                                          {"help", no_argument, NULL, 'H'},
                                          {NULL, 0, NULL, 0}};
    unsigned given = 0;
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        const char *wrong = NULL;
        switch (c) {
        case 'o':
            o->out = optarg;
            given |= 1;
            break;
        case 'p':
            wrong = whole(optarg, 1, MAX_PATIENTS, &o->patients) ? NULL : "--patients takes a number from 1 to 9999";
            given |= 2;
            break;
        case 'h':
            wrong = str_to_f64(optarg, &o->hours) && o->hours * HOUR_S >= 1 && o->hours <= MAX_HOURS
                        ? NULL
                        : "--hours-per-patient takes a number of hours, one second to 9999 hours";
            given |= 4;
            break;
        case 'k':
            wrong = whole(optarg, 0, MAX_SEIZURES, &o->seizures) ? NULL : "--seizures-per-patient takes a number from 0 to 100000";
            given |= 8;
            break;
        case 's':
            wrong = str_to_u64(optarg, &o->seed) ? NULL : "--seed takes a whole number from 0 to 2^64-1";
            given |= 16;
            break;
        case 'm':
            o->bipolar = !strcmp(optarg, "bipolar");
            wrong = o->bipolar || !strcmp(optarg, "referential") ? NULL : "--montage takes referential or bipolar";
            break;
        case 'l':
            o->csv_bi = !strcmp(optarg, "csv_bi");
            wrong = o->csv_bi ? NULL : "--labels takes csv_bi (the events TSV is always written)";
            break;
        case 'B':
            o->bids = true;
            break;
        case 'y':
            wrong = read_style(optarg, &o->style) ? NULL : "--style takes simple, rich, people, wide or icu";
            break;
        case 'b':
            wrong = str_to_f64(optarg, &o->suppressed) && o->suppressed >= BURSTS_LEAST_RATIO && o->suppressed <= BURSTS_MOST_RATIO
                        ? NULL
                        : "--burst-suppression takes the suppressed share of the time, 0.5 to 0.95";
            break;
        default:
            fputs(USAGE, c == 'H' ? stdout : stderr);
            return c == 'H' ? -1 : 2;
        }
        if (wrong) {
            fprintf(stderr, "edfgen: %s, not '%s'\n", wrong, optarg);
            return 2;
        }
    }
    if (optind < argc || given != 31) {
        fprintf(stderr, "edfgen: %s\n%s", optind < argc ? "an argument too many" : "an option is missing", USAGE);
        return 2;
    }
    if (o->suppressed > 0 && o->seizures > 0) {
        fputs("edfgen: --burst-suppression makes recordings without seizures; give --seizures-per-patient 0\n", stderr);
        return 2;
    }
    return 0;
}

static int patient_item(void *ctx, int64_t item, struct err *err) {
    struct err own = {0};
    char text[1024];
    int rc = make_patient(ctx, (int)item, &own);
    return rc ? err_set(err, rc, "sub-%02d: %s", (int)item + 1, err_text(&own, text, sizeof text)) : 0;
}
static bool failed(void *ctx, int64_t item, int rc) {
    (void)ctx, (void)item;
    return rc != 0;
}

/* Each patient is drawn from the seed and its number alone: their order does not matter. */
static int make_patients(struct options *o, struct err *err) {
    OWNED_POINTER(crew_close) struct crew *crew = NULL;
    struct crew_work work = {
        .n = o->patients, .threads = container_processors_here(), .run = patient_item, .finished = failed, .ctx = o};
    int rc = crew_start(&work, &crew, err);
    if (rc)
        return rc;
    crew_follow(crew, NULL, NULL);
    return crew_failure(crew, err);
}

int main(int argc, char **argv) {
    struct options options = {0};
    struct err err = {0};
    int status = parse_options(argc, argv, &options);
    if (status)
        return status < 0 ? 0 : status;
    if ((options.bids && (fsio_mkdirs(options.out, &err) ||
                          bids_write_dataset(options.out, "Synthetic EEG by edfgen; no human recordings.", &err))) ||
        make_patients(&options, &err)) {
        char text[1024];
        fprintf(stderr, "edfgen: %s\n", err_text(&err, text, sizeof text));
        return 1;
    }
    fprintf(stderr, "edfgen: %s of %s, %.2f hours, %s in %s\n",
            counted(options.patients * recordings_of(&options), "recording").text, counted(options.patients, "patient").text,
            (double)(options.patients * seconds_of(&options)) / HOUR_S,
            counted(options.patients * options.seizures, "seizure").text, options.out);
    return 0;
}
