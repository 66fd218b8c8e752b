#include "formats/eegfile.h"

#include "formats/format.h"
#include "formats/letters.h"
#include "formats/unit.h"

#define RECORDING_FORMAT(id) &format_##id,
static const struct recording_format *const formats[] = {
#include "formats/recordings.def"
};
#undef RECORDING_FORMAT
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- names ---- */

static const char ANNOTATIONS[] = "_annotations.edf"; /* events in EDF+, no recording */

static bool ends_with_one(const char *path, const char *const *endings) {
    while (endings && *endings && !str_ends_nocase(path, *endings))
        endings++;
    return endings && *endings && strlen(path) > strlen(*endings);
}

enum eegfile_kind eegfile_kind(const char *path) {
    bool recording = false, part = false;
    if (str_ends_nocase(path, ANNOTATIONS))
        return EEGFILE_NONE;
    for (int i = 0; i < FORMATS; i++) {
        recording |= ends_with_one(path, formats[i]->endings);
        part |= ends_with_one(path, formats[i]->part_endings);
    }
    return recording && part ? EEGFILE_EITHER : recording ? EEGFILE_RECORDING : part ? EEGFILE_PART : EEGFILE_NONE;
}

const char *eegfile_unread(const char *path) {
    static const struct {
        const char *ending, *instead;
    } unread[] = {
        {".trc", "a recording of Micromed, which is not read; export it as EDF in SystemPlus"},
        {".e", "a recording of Nicolet, which is not read; export it as EDF in NicoletOne"},
        {".cnt", "a recording of Neuroscan or ANT Neuro (CNT), which is not read; export it as EDF in Curry or asa, or with MNE: "
                 "mne.io.read_raw_cnt(FILE).export('x.edf')"},
        {".fif", "a FIF recording of MNE, which is not read; export it as EDF: mne.io.read_raw_fif(FILE).export('x.edf')"},
    };
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (str_ends_nocase(path, unread[i].ending))
            return unread[i].instead;
    return NULL;
}

bool eegfile_has_parts(const char *path) {
    for (int i = 0; i < FORMATS; i++)
        if (formats[i]->part_endings && ends_with_one(path, formats[i]->endings))
            return true;
    return false;
}

/* The format of a file that begins with these bytes, or NULL. */
static const struct recording_format *recognise(const uint8_t *start, size_t n) {
    for (int i = 0; i < FORMATS; i++)
        if (formats[i]->probe(start, n))
            return formats[i];
    return NULL;
}

bool eegfile_named(const char *path) {
    enum eegfile_kind kind = eegfile_kind(path);
    uint8_t buffer[FORMAT_PROBE_BYTES];
    const uint8_t *start;
    struct filebytes bytes;
    if (kind != EEGFILE_EITHER)
        return kind == EEGFILE_RECORDING;
    filebytes_init(&bytes, path);
    if (filebytes_open(&bytes, path, NULL))
        return false;
    const size_t n = bytes.len < sizeof buffer ? bytes.len : sizeof buffer;
    const bool known = !filebytes_get(&bytes, 0, n, buffer, &start, NULL) && recognise(start, n);
    filebytes_close(&bytes);
    return known;
}

const char *eegfile_ending(const char *path) {
    size_t len = strlen(path);
    for (int i = 0; i < FORMATS; i++)
        for (const char *const *ending = formats[i]->endings; *ending; ending++)
            if (str_ends_nocase(path, *ending) && len > strlen(*ending))
                return path + len - strlen(*ending);
    return path + len;
}

size_t eegfile_stem(const char *path, bool suffix) {
    const char *ending = eegfile_ending(path);
    size_t cut = (size_t)(ending - path);
    return suffix && *ending && cut > 4 && !strncasecmp(ending - 4, "_eeg", 4) ? cut - 4 : cut;
}

static bool exists_as(const char *stem, const char *suffix, const char *ending, bool upper, char *ret, size_t size) {
    if (!str_format(ret, size, "%s%s%s", stem, suffix, ending))
        return false;
    for (char *c = ret + strlen(stem); upper && *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return letters_find(ret, size) && eegfile_named(ret);
}

bool eegfile_beside(const char *stem, char *ret, size_t size) {
    static const char *const suffixes[] = {"_eeg", ""};
    for (int upper = 0; upper < 2; upper++)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < FORMATS; i++)
                for (const char *const *ending = formats[i]->endings; *ending; ending++)
                    if (exists_as(stem, suffixes[k], *ending, upper, ret, size))
                        return true;
    return false;
}

/* ---- opening ---- */

/* The format whose recordings have parts that end like path, or NULL. */
static const struct recording_format *format_of_part(const char *path) {
    for (int i = 0; i < FORMATS; i++)
        if (ends_with_one(path, formats[i]->part_endings))
            return formats[i];
    return NULL;
}

/* Finds the format of source->bytes and opens it. */
static int open_in_format(struct format_source *source, struct eegfile **ret, struct err *err) {
    uint8_t buffer[FORMAT_PROBE_BYTES];
    const uint8_t *start;
    size_t n = source->bytes.len < sizeof buffer ? source->bytes.len : sizeof buffer;
    int rc = filebytes_get(&source->bytes, 0, n, buffer, &start, err);
    if (rc)
        return rc;
    const struct recording_format *format = recognise(start, n);
    const struct recording_format *whole = format || source->bytes.memory ? NULL : format_of_part(source->bytes.name);
    if (whole)
        return err_set(err, ERR_INVALID, "%s is a part of a %s recording; name the file that ends in %s", source->bytes.name,
                       whole->name, whole->endings[0]);
    const char *unread = format ? NULL : eegfile_unread(source->bytes.name);
    if (unread)
        return err_set(err, ERR_UNSUPPORTED, "%s is %s", source->bytes.name, unread);
    source->format = format ? format : formats[0];
    source->enough = true;
    struct err why = {0}; /* the error of a companion that is not needed is none of the caller's */
    if ((rc = source->format->open(source, ret, &why))) {
        if (err)
            *err = why;
        return rc;
    }
    (*ret)->format = source->format;
    return 0;
}

static int open_path(const char *path, enum format_depth depth, const struct eegfile_sizes *sizes, struct eegfile **ret,
                     bool *ret_enough, struct err *err) {
    struct format_source source = {.depth = depth};
    filebytes_init(&source.bytes, path);
    int rc = filebytes_open(&source.bytes, path, err);
    if (rc)
        return rc;
    source.whole = source.bytes.len;
    if (sizes) {
        int64_t whole = sizes->bytes_of(sizes->ctx, path);
        source.sizes = *sizes;
        source.whole = whole > (int64_t)source.whole ? (size_t)whole : source.whole;
    }
    rc = open_in_format(&source, ret, err);
    filebytes_close(&source.bytes);
    *ret_enough = source.enough;
    return rc;
}

int eegfile_open(const char *path, struct eegfile **ret, struct err *err) {
    bool enough;
    return open_path(path, FORMAT_WHOLE, NULL, ret, &enough, err);
}

int eegfile_open_header(const char *path, struct eegfile **ret, struct err *err) {
    bool enough;
    return open_path(path, FORMAT_HEADER, NULL, ret, &enough, err);
}

int eegfile_open_head(const char *path, struct eegfile_sizes sizes, struct eegfile **ret, bool *ret_enough, struct err *err) {
    return open_path(path, FORMAT_HEAD, &sizes, ret, ret_enough, err);
}

int eegfile_open_growing(const char *path, struct eegfile **ret, struct eegfile_growth *growth, struct err *err) {
    struct format_source source = {.depth = FORMAT_HEADER, .growth = growth};
    filebytes_init(&source.bytes, path);
    int rc = filebytes_open(&source.bytes, path, err);
    source.whole = source.bytes.len;
    growth->offset = -1;
    rc = rc ? rc : open_in_format(&source, ret, err);
    filebytes_close(&source.bytes);
    if (rc || growth->offset >= 0)
        return rc;
    rc = err_set(err, ERR_UNSUPPORTED, "%s: a recording of %s cannot be followed while it is written; wait until it is complete",
                 path, (*ret)->format->name);
    eegfile_close(*ret);
    *ret = NULL;
    return rc;
}

int eegfile_open_memory(const struct eegfile_part *parts, int n_parts, struct eegfile **ret, struct err *err) {
    struct format_source source = {.whole = parts[0].len, .parts = parts + 1, .n_parts = n_parts - 1};
    filebytes_init(&source.bytes, parts[0].name);
    source.bytes.memory = parts[0].data;
    source.bytes.len = parts[0].len;
    return open_in_format(&source, ret, err);
}

void eegfile_close(struct eegfile *file) {
    if (file)
        file->format->close(file);
}

/* ---- records that arrive ---- */

int eegfile_feed(struct eegfile *file, const void *records, int64_t n, struct err *err) {
    if (!file->format->feed)
        return err_set(err, ERR_PRECONDITION, "%s: %s recordings cannot be read while they are written", file->path,
                       file->format->name);
    return file->format->feed(file, records, n, err);
}

int64_t eegfile_record_bytes(const struct eegfile *file) {
    return file->format->record_bytes ? file->format->record_bytes(file) : 0;
}

/* ---- access ---- */

int eegfile_assume_unit(struct eegfile *file, const char *unit, struct err *err) {
    bool blank = false;
    double factor = unit ? unit_factor(unit, &blank) : 1;
    if (blank || factor <= 0)
        return err_set(err, ERR_INVALID, "the unit '%s' is no voltage; expected uV, mV or V", unit);
    for (int i = 0; unit && i < file->info->n_signals; i++) {
        struct eeg_signal *s = &file->signals[i];
        if (s->annotation || (s->volt && !s->unit_assumed && !s->unit_unstated))
            continue;
        s->gain *= factor;
        s->offset *= factor;
        s->volt = true;
        s->unit_assumed = s->unit_unstated = false;
        s->note = s->usable ? "" : s->note;
    }
    return 0;
}

const struct eeg_info *eegfile_info(const struct eegfile *file) { return file->info; }

const char *eegfile_format(const struct eegfile *file) { return file->format->name; }

bool eegfile_annotations_known(const struct eegfile *file) { return file->annotations_known; }

int eegfile_segments(const struct eegfile *file, const struct eeg_segment **ret) {
    *ret = file->info->segments;
    return file->info->n_segments;
}

const char *eegfile_start_text(const struct eegfile *file, char *buf, size_t size) {
    return eeg_start_text(&file->info->start, buf, size);
}

const char *eeg_start_text(const struct eeg_start *s, char *buf, size_t size) {
    if (s->known)
        str_format(buf, size, "%04d-%02d-%02d %02d:%02d:%02d", s->year, s->month, s->day, s->hour, s->minute, s->second);
    else
        str_copy(buf, size, "n/a");
    return buf;
}

void eeg_start_add(struct eeg_start *start, double seconds) {
    const double whole = floor(seconds);
    start->subsecond = seconds - whole;
    if (whole == 0 || !start->known || fabs(whole) > 1e9)
        return;
    struct tm tm = {.tm_year = start->year - 1900,
                    .tm_mon = start->month - 1,
                    .tm_mday = start->day,
                    .tm_hour = start->hour,
                    .tm_min = start->minute,
                    .tm_sec = start->second};
    const time_t at = timegm(&tm) + (time_t)whole;
    if (!gmtime_r(&at, &tm))
        return;
    start->year = tm.tm_year + 1900;
    start->month = tm.tm_mon + 1;
    start->day = tm.tm_mday;
    start->hour = tm.tm_hour;
    start->minute = tm.tm_min;
    start->second = tm.tm_sec;
}

const char *format_steps_back(double back_s) {
    return back_s > EEGFILE_MOST_GAP_S
               ? "the clock steps back, and one of the two dates is probably wrong; put it right, or cut there"
               : "the clock steps back; export the recording again, or cut it there";
}

double eeg_gap_before(const struct eeg_info *info, int i, double *ret_end_s) {
    const struct eeg_segment *before = &info->segments[i - 1];
    *ret_end_s = before->start_s + (double)before->n_records * info->record_s;
    return fmax(0, before[1].start_s - *ret_end_s);
}

double eeg_recorded_s(const struct eeg_info *info) {
    double seconds = info->duration_s, end_s;
    for (int i = 1; i < info->n_segments; i++)
        seconds -= eeg_gap_before(info, i, &end_s);
    return seconds;
}

bool eeg_has_long_gap(const struct eeg_info *info, char *buf, size_t size) {
    for (int i = 1; i < info->n_segments; i++) {
        double end_s;
        const double gap_s = eeg_gap_before(info, i, &end_s);
        struct eeg_start date = info->start;
        char text[24];
        if (!(gap_s > EEGFILE_MOST_GAP_S))
            continue;
        eeg_start_add(&date, info->segments[i].start_s + info->start.subsecond);
        str_format(buf, size, "a gap of %.1f days at %.0f s by its clock: a date, %s behind it, is probably wrong", gap_s / 86400,
                   end_s, eeg_start_text(&date, text, sizeof text));
        return true;
    }
    return false;
}

/* A signal that can be read, with as many samples per record as the first one. */
static int check_signal(const struct eegfile *file, int signal, int64_t per_record, struct err *err) {
    const struct eeg_info *info = file->info;
    if (signal < 0 || signal >= info->n_signals)
        return err_set(err, ERR_RANGE, "%s: signal %d is wanted, there are %d", file->path, signal, info->n_signals);
    const struct eeg_signal *s = &info->signals[signal];
    if (!s->usable)
        return err_set(err, ERR_PRECONDITION, "%s: signal %d '%s' cannot be read: %s", file->path, signal + 1, s->label,
                       s->annotation ? "it holds annotations" : s->note);
    if (s->samples_per_record != per_record)
        return err_set(err, ERR_INVALID, "%s: signal %d '%s' has %lld samples per record, others that are read with it %lld",
                       file->path, signal + 1, s->label, (long long)s->samples_per_record, (long long)per_record);
    return 0;
}

int eegfile_read(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                 struct err *err) {
    const struct eeg_info *info = file->info;
    bool first_there = n_signals > 0 && signals[0] >= 0 && signals[0] < info->n_signals;
    int64_t per_record = first_there ? info->signals[signals[0]].samples_per_record : 0, all = 0;
    for (int i = 0; i < n_signals; i++) {
        int rc = check_signal(file, signals[i], per_record, err);
        if (rc)
            return rc;
    }
    if (n_signals && __builtin_mul_overflow(info->n_records, per_record, &all))
        all = INT64_MAX;
    if (range.first < 0 || range.n < 0 || range.n > all || range.first > all - range.n)
        return err_set(err, ERR_RANGE, "%s: %lld samples from number %lld on are wanted, there are %lld", file->path,
                       (long long)range.n, (long long)range.first, (long long)all);
    return range.n ? file->format->read(file, signals, n_signals, range, uv, err) : 0;
}

/* ---- companions ---- */

/* A part under the name that it has in the folder. */
static void name_as_there(const char *path, char name[EEGFILE_NAME_SIZE]) {
    char part[FORMAT_PATH_SIZE];
    const int folder = (int)(fsio_basename(path) - path);
    if (str_format(part, sizeof part, "%.*s%s", folder, path, name) && letters_find(part, sizeof part))
        str_copy(name, EEGFILE_NAME_SIZE, part + folder);
}

int eegfile_list_companions(const char *path, struct eegfile_companions *ret, struct err *err) {
    struct format_source source = {.depth = FORMAT_HEADER, .listed = ret};
    OWNED_POINTER(eegfile_close) struct eegfile *file = NULL;
    *ret = (struct eegfile_companions){0};
    filebytes_init(&source.bytes, path);
    int rc = eegfile_has_parts(path) ? filebytes_open(&source.bytes, path, err) : 0;
    if (rc || source.bytes.fd < 0)
        return rc;
    source.whole = source.bytes.len;
    struct err why = {0};
    rc = open_in_format(&source, &file, &why);
    filebytes_close(&source.bytes);
    for (int i = 0; i < ret->n; i++)
        name_as_there(path, ret->names[i]);
    if (rc && rc != ERR_NOT_FOUND && err)
        *err = why;
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

bool eegfile_samples_path(const char *path, char *ret, size_t size) {
    struct eegfile_companions parts;
    const int folder = (int)(fsio_basename(path) - path);
    if (!eegfile_has_parts(path) || eegfile_list_companions(path, &parts, NULL))
        return false;
    int found = 0;
    for (bool here = false; found < parts.n_samples && !here; found += !here) {
        if (!str_format(ret, size, "%.*s%s", folder, path, parts.names[found]))
            return false;
        here = fsio_exists(ret);
    }
    return parts.n_samples && (found < parts.n_samples || str_format(ret, size, "%.*s%s", folder, path, parts.names[0]));
}

bool eegfile_is_bad_content(int rc) { return rc == ERR_INVALID || rc == ERR_UNSUPPORTED || rc == ERR_RANGE; }

static int part_in_memory(const struct format_source *source, const char *name, struct filebytes *ret, size_t *ret_whole,
                          struct err *err) {
    for (int i = 0; i < source->n_parts; i++)
        if (!strcmp(source->parts[i].name, name)) {
            ret->memory = source->parts[i].data;
            *ret_whole = ret->len = source->parts[i].len;
            return 0;
        }
    return err_set(err, ERR_NOT_FOUND, "%s: its file %s is not there", source->bytes.name, name);
}

int format_open_companion(const struct format_source *source, const char *name, char path[FORMAT_PATH_SIZE], struct filebytes *ret,
                          size_t *ret_whole, struct err *err) {
    const char *own = source->bytes.name;
    struct eegfile_companions *listed = source->listed;
    struct err why = {0};
    filebytes_init(ret, path);
    if (listed && listed->n < EEGFILE_COMPANIONS && str_copy(listed->names[listed->n], EEGFILE_NAME_SIZE, name))
        listed->n++;
    if (listed)
        return ERR_NOT_FOUND;
    if (!str_format(path, FORMAT_PATH_SIZE, "%.*s%s", (int)(fsio_basename(own) - own), own, name))
        return err_set(err, ERR_RANGE, "%s: the path of its file %s is too long", own, name);
    if (source->bytes.memory)
        return part_in_memory(source, name, ret, ret_whole, err);
    (void)letters_find(path, FORMAT_PATH_SIZE);
    int rc = filebytes_open(ret, path, &why);
    struct stat link;
    if ((rc == ERR_NOT_FOUND && !lstat(path, &link)) || (!rc && filebytes_is_pointer(path))) {
        filebytes_close(ret);
        return err_set(err, ERR_PRECONDITION,
                       "%s: the content of its file %s is not here; fetch it (datalad get, git annex get, git lfs pull)", own,
                       name);
    }
    if (rc)
        return err_set(err, rc, "%s: its file %s cannot be opened (%s); keep both in one folder under these names", own, name,
                       why.message);
    *ret_whole = ret->len;
    if (source->sizes.bytes_of) {
        int64_t whole = source->sizes.bytes_of(source->sizes.ctx, path);
        *ret_whole = whole > (int64_t)ret->len ? (size_t)whole : ret->len;
    }
    return 0;
}
