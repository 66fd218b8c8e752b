#include "windows/bids.h"

#include "base/json.h"
#include "eeg/labels.h"
#include "store/outputs.h"

enum { PATH_SIZE = 4096, TEXT_MAX = 1 << 20 };

/* ---- names ---- */

/* Letters and digits of the first n bytes. */
static bool alnum_copy(char *dst, size_t size, const char *text, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if (isalnum((unsigned char)text[i])) {
            if (at + 1 >= size)
                return false;
            dst[at++] = text[i];
        }
    dst[at] = '\0';
    return true;
}

int bids_name_of(const char *relative_path, struct bids_name *ret, struct err *err) {
    const char *file = fsio_basename(relative_path);
    struct bids_name name = {0};
    const struct {
        const char *key;
        char *value;
        size_t size;
    } entities[] = {{"sub-", name.subject, sizeof name.subject},
                    {"ses-", name.session, sizeof name.session},
                    {"task-", name.task, sizeof name.task},
                    {"acq-", name.acquisition, sizeof name.acquisition},
                    {"run-", name.run, sizeof name.run}};
    bool fits = true;
    for (const char *at = file; *at; at += strcspn(at, "_"), at += *at == '_')
        for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
            size_t key = strlen(entities[i].key);
            if (!strncmp(at, entities[i].key, key))
                fits &= alnum_copy(entities[i].value, entities[i].size, at + key, strcspn(at + key, "_."));
        }
    if (!*name.subject) {
        char patient[PATH_SIZE];
        int rc = labels_patient(relative_path, LABELS_PATIENT_AUTO, patient, sizeof patient, NULL, err);
        if (rc)
            return rc;
        const char *label = str_starts(patient, "sub-") ? patient + 4 : patient;
        fits &= alnum_copy(name.subject, sizeof name.subject, label, strlen(label));
    }
    if (!*name.task)
        str_copy(name.task, sizeof name.task, BIDS_TASK);
    if (!fits || !*name.subject)
        return err_set(err, ERR_RANGE, "%.200s: no BIDS name can be made of this one; name it sub-LABEL_task-LABEL_eeg.edf",
                       relative_path);
    *ret = name;
    return 0;
}

const char *bids_suffix(const char *path, const struct eeg_info *info) {
    static const char *const others[] = {"_eeg.vhdr", "_eeg.set"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(eegfile_ending(path), others[i] + 4))
            return others[i];
    return info->bdf ? "_eeg.bdf" : "_eeg.edf";
}

static void put_entity(struct str *out, const char *key, const char *value) {
    if (*value)
        str_printf(out, "%s%s", key, value);
}

int bids_path(const struct bids_name *name, const char *suffix, char *buf, size_t size, struct err *err) {
    OWNED(str_done) struct str path = str_of(PATH_SIZE);
    str_printf(&path, "sub-%s/", name->subject);
    put_entity(&path, "ses-", name->session);
    str_printf(&path, "%seeg/sub-%s", *name->session ? "/" : "", name->subject);
    put_entity(&path, "_ses-", name->session);
    put_entity(&path, "_task-", name->task);
    put_entity(&path, "_acq-", name->acquisition);
    put_entity(&path, "_run-", name->run);
    str_puts(&path, suffix);
    return str_copy(buf, size, str_cstr(&path)) ? 0 : err_set(err, ERR_RANGE, "the path is too long: %.200s…", str_cstr(&path));
}

/* ---- channels ---- */

/* "Fp1" of "EEG Fp1-REF", and "REF" as *ret_reference ("" = none). */
static void split_label(const char *label, char electrode[32], char reference[32]) {
    const char *at = strncasecmp(label, "EEG ", 4) ? label : label + 4, *dash = strchr(at, '-');
    str_format(electrode, 32, "%.*s", dash ? (int)(dash - at) : (int)strlen(at), at);
    str_copy(reference, 32, dash ? dash + 1 : "");
}

/* A place of the 10-10 system: letters, then a number or z. */
static bool is_electrode(const char *text) {
    static const char *const places[] = {"FP", "AF", "F", "FT", "FC", "T", "C", "TP", "CP", "P", "PO", "O", "I", "A", "M", "N"};
    size_t letters = 0;
    while (isalpha((unsigned char)text[letters]) && (letters == 0 || tolower((unsigned char)text[letters]) != 'z'))
        letters++;
    const char *rest = text + letters;
    bool numbered = (tolower((unsigned char)*rest) == 'z' && !rest[1]) || (isdigit((unsigned char)*rest) && strlen(rest) <= 2);
    for (size_t i = 0; numbered && i < sizeof places / sizeof *places; i++)
        if (strlen(places[i]) == letters && !strncasecmp(places[i], text, letters))
            return true;
    return false;
}

static bool contains(const char *text, const char *word) {
    for (; *text; text++)
        if (!strncasecmp(text, word, strlen(word)))
            return true;
    return false;
}

enum channel_type { TYPE_EEG, TYPE_EOG, TYPE_ECG, TYPE_EMG, TYPE_TRIG, TYPE_MISC, TYPES };
static const char *const TYPE_NAMES[TYPES] = {"EEG", "EOG", "ECG", "EMG", "TRIG", "MISC"};
static const char *const TYPE_COUNTS[TYPES] = {"EEGChannelCount", "EOGChannelCount",     "ECGChannelCount",
                                               "EMGChannelCount", "TriggerChannelCount", "MiscChannelCount"};

static enum channel_type type_of(const struct eeg_signal *s) {
    char electrode[32], reference[32];
    split_label(s->label, electrode, reference);
    if (contains(s->label, "EOG"))
        return TYPE_EOG;
    if (contains(s->label, "ECG") || contains(s->label, "EKG"))
        return TYPE_ECG;
    if (contains(s->label, "EMG"))
        return TYPE_EMG;
    if (contains(s->label, "STATUS") || contains(s->label, "TRIG"))
        return TYPE_TRIG;
    return s->volt && (!strncasecmp(s->label, "EEG", 3) || is_electrode(electrode)) ? TYPE_EEG : TYPE_MISC;
}

/* What all EEG channels are measured against: "REF", "bipolar" when it differs, "n/a" when the labels do not say. */
static void reference_of(const struct eeg_info *info, char ret[32]) {
    char electrode[32], reference[32];
    str_copy(ret, 32, "");
    for (int i = 0; i < info->n_signals; i++) {
        if (info->signals[i].annotation || type_of(&info->signals[i]) != TYPE_EEG)
            continue;
        split_label(info->signals[i].label, electrode, reference);
        if (!*ret)
            str_copy(ret, 32, *reference ? reference : "n/a");
        else if (strcmp(ret, *reference ? reference : "n/a") != 0)
            str_copy(ret, 32, "bipolar");
    }
    if (!*ret)
        str_copy(ret, 32, "n/a");
}

static void put_channels(const struct eeg_info *info, struct str *out) {
    str_puts(out, "name\ttype\tunits\tsampling_frequency\treference\n");
    for (int i = 0; i < info->n_signals; i++) {
        const struct eeg_signal *s = &info->signals[i];
        char electrode[32], reference[32];
        split_label(s->label, electrode, reference);
        if (!s->annotation)
            str_printf(out, "%s\t%s\t%s\t%.10g\t%s\n", s->label, TYPE_NAMES[type_of(s)], *s->unit ? s->unit : "n/a", s->rate_hz,
                       *reference ? reference : "n/a");
    }
}

/* ---- side files ---- */

/* The rate of the first EEG signal, else of the first signal. */
static double rate_of(const struct eeg_info *info) {
    double rate_hz = 0;
    for (int i = info->n_signals - 1; i >= 0; i--)
        if (!info->signals[i].annotation && (!(rate_hz > 0) || type_of(&info->signals[i]) == TYPE_EEG))
            rate_hz = info->signals[i].rate_hz;
    return rate_hz;
}

static void put_eeg(const struct bids_name *name, const struct eeg_info *info, double mains_hz, struct str *out) {
    struct json_writer w = json_to(out);
    char reference[32];
    int counts[TYPES] = {0};
    for (int i = 0; i < info->n_signals; i++)
        counts[type_of(&info->signals[i])] += !info->signals[i].annotation;
    reference_of(info, reference);
    json_begin_object(&w, NULL);
    json_put_str(&w, "TaskName", name->task);
    json_put_str(&w, "EEGReference", reference);
    json_put_f64(&w, "SamplingFrequency", rate_of(info));
    if (mains_hz > 0)
        json_put_f64(&w, "PowerLineFrequency", mains_hz);
    else
        json_put_str(&w, "PowerLineFrequency", "n/a");
    json_put_str(&w, "SoftwareFilters", "n/a");
    json_put_f64(&w, "RecordingDuration", info->duration_s);
    json_put_str(&w, "RecordingType", info->n_segments > 1 ? "discontinuous" : "continuous");
    for (int i = 0; i < TYPES; i++)
        json_put_i64(&w, TYPE_COUNTS[i], counts[i]);
    json_end(&w, '}');
    str_puts(out, "\n");
}

/* A column of the events file: what it means, its unit or its values. */
static void put_column(struct json_writer *w, const char *column, const char *meaning, const char *unit) {
    json_begin_object(w, column);
    json_put_str(w, "Description", meaning);
    if (unit)
        json_put_str(w, "Units", unit);
}

static void put_levels(struct json_writer *w) {
    json_begin_object(w, "Levels");
    json_put_str(w, "sz", "seizure; further letters are its type, as in SzCORE");
    json_put_str(w, "bckg", "no seizure in the whole recording");
    json_end(w, '}');
}

static void put_events(struct str *out) {
    static const char *const plain[][3] = {
        {"onset", "start of the event, from the first sample of the recording", "s"},
        {"duration", "length of the event", "s"},
        {"confidence", "highest probability of the event, 0 to 1", NULL},
        {"channels", "channels of the event; n/a: all", NULL},
        {"dateTime", "start of the recording, YYYY-MM-DD HH:MM:SS", NULL},
        {"recordingDuration", "length of the recording", "s"},
    };
    static const char *const types[] = {"eventType", "trial_type"};
    struct json_writer w = json_to(out);
    json_begin_object(&w, NULL);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        put_column(&w, plain[i][0], plain[i][1], plain[i][2]);
        json_end(&w, '}');
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        put_column(&w, types[i], "type of the event", NULL);
        put_levels(&w);
        json_end(&w, '}');
    }
    json_end(&w, '}');
    str_puts(out, "\n");
}

static int write_text(const char *root, const char *relative, const struct str *text, struct err *err) {
    char path[2 * PATH_SIZE];
    int rc;
    if ((rc = fsio_join(path, sizeof path, root, relative, err)) || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    return fsio_write_text(path, text, err);
}

/* Side files that somebody else has written, or changed, stay. */
static int write_side_file(const char *root, const struct bids_name *name, const char *suffix, struct str *text, struct err *err) {
    char relative[PATH_SIZE], path[2 * PATH_SIZE];
    int rc;
    if ((rc = bids_path(name, suffix, relative, sizeof relative, err)) || (rc = fsio_join(path, sizeof path, root, relative, err)))
        return rc;
    if ((!fsio_exists(path) || outputs_own(path)) &&
        ((rc = write_text(root, relative, text, err)) || (rc = outputs_add(path, err))))
        return rc;
    str_clear(text);
    return 0;
}

int bids_write_recording(const char *root, const struct bids_name *name, const struct eeg_info *info, double mains_hz,
                         struct err *err) {
    OWNED(str_done) struct str text = str_of(TEXT_MAX);
    int rc;
    put_eeg(name, info, mains_hz, &text);
    if ((rc = write_side_file(root, name, "_eeg.json", &text, err)))
        return rc;
    put_channels(info, &text);
    if ((rc = write_side_file(root, name, "_channels.tsv", &text, err)))
        return rc;
    put_events(&text);
    return write_side_file(root, name, "_events.json", &text, err);
}

static int write_new(const char *root, const char *name, const struct str *text, struct err *err) {
    char path[2 * PATH_SIZE];
    int rc = fsio_join(path, sizeof path, root, name, err);
    return rc || fsio_exists(path) ? rc : write_text(root, name, text, err);
}

int bids_write_dataset(const char *root, const char *about, struct err *err) {
    OWNED(str_done) struct str text = str_of(TEXT_MAX);
    struct json_writer w = json_to(&text);
    int rc;
    json_begin_object(&w, NULL);
    json_put_str(&w, "Name", "EEG recordings with seizure events");
    json_put_str(&w, "BIDSVersion", "1.9.0");
    json_put_str(&w, "DatasetType", "raw");
    json_begin_array(&w, "Authors");
    json_put_str(&w, NULL, "n/a");
    json_end(&w, ']');
    json_begin_array(&w, "GeneratedBy");
    json_begin_object(&w, NULL);
    json_put_str(&w, "Name", "brrd");
    json_put_str(&w, "Description", about);
    json_end(&w, '}');
    json_end(&w, ']');
    json_end(&w, '}');
    str_puts(&text, "\n");
    if ((rc = write_new(root, "dataset_description.json", &text, err)))
        return rc;
    str_clear(&text);
    str_printf(&text,
               "# EEG recordings with seizure events\n\n%s\n\nEach recording has an events file (_events.tsv): one row for each "
               "seizure, or one row of the type bckg if there is none.\nTimes are seconds from the first sample. The columns are "
               "those of SzCORE, and trial_type, which repeats the type for BIDS\ntools; _events.json describes them. Channels are "
               "listed in _channels.tsv, the recording in _eeg.json.\n",
               about);
    return write_new(root, "README", &text, err);
}
