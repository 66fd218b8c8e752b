/* Persyst: a layout (.lay) of lines KEY=VALUE in sections and a file of samples (.dat) of 16 or 32 bits, sample after sample.
 * Comments become annotations; sample times (seconds of the day at some samples) become gaps. The layout often names its samples by
 * a path of the machine that wrote it: only the last part counts. */

#include "formats/civil.h"
#include "formats/matrix.h"
#include "formats/rate.h"

enum { LAY_MOST_BYTES = 64 << 20, LAY_MOST_CHANNELS = 65536 };

struct lay {
    struct matrix *m; /* NULL: companions alone */
    char data_file[EEGFILE_NAME_SIZE];
    const char *rate_hz;
    double calibration;                           /* NAN: not stated */
    int64_t channels, header_bytes, type;         /* −1: not stated */
    struct matrix_text labels[LAY_MOST_CHANNELS]; /* by position in the file */
    int64_t n_labels;
    char date[32], time[32];
};

static bool lay_probe(const uint8_t *start, size_t n) {
    char text[FORMAT_PROBE_BYTES + 1];
    memcpy(text, start, n);
    text[n] = '\0';
    const char *c = text + (strncmp(text, "\xEF\xBB\xBF", 3) ? 0 : 3);
    return !strncasecmp(c + strspn(c, " \t\r\n"), "[FileInfo]", 10);
}

static const char *last_part(const char *path) {
    const char *last = path;
    for (const char *c = path; *c; c++)
        last = *c == '/' || *c == '\\' ? c + 1 : last;
    return last;
}

static int take_file_info(struct lay *l, const char *path, const char *key, const char *value, struct err *err) {
    bool good = true;
    if (!strcasecmp(key, "File"))
        good = str_copy(l->data_file, sizeof l->data_file, last_part(value));
    else if (!strcasecmp(key, "FileType"))
        return strcasecmp(value, "Interleaved")
                   ? err_set(err, ERR_UNSUPPORTED,
                             "%s: FileType=%.40s is not read; export the recording with FileType=Interleaved, or as EDF", path,
                             value)
                   : 0;
    else if (!strcasecmp(key, "SamplingRate"))
        good = rate_of_decimal(l->rate_hz = value, false, &(struct exact_rate){0});
    else if (!strcasecmp(key, "Calibration"))
        good = str_to_f64(value, &l->calibration);
    else if (!strcasecmp(key, "WaveformCount"))
        good = str_to_i64(value, &l->channels) && l->channels > 0 && l->channels <= LAY_MOST_CHANNELS;
    else if (!strcasecmp(key, "HeaderLength"))
        good = str_to_i64(value, &l->header_bytes) && l->header_bytes >= 0;
    else if (!strcasecmp(key, "DataType"))
        good = str_to_i64(value, &l->type);
    return good ? 0 : err_set(err, ERR_INVALID, "%s: %s=%.80s; expected a number above 0", path, key, value);
}

/* SAMPLE=SECONDS: the clock at a sample. */
static int take_sample_time(struct lay *l, const char *key, const char *value, struct err *err) {
    int64_t sample;
    double seconds;
    if (!str_to_i64(key, &sample) || !str_to_f64(value, &seconds))
        return 0;
    return matrix_add_mark(l->m, sample, seconds, NAN, err);
}

/* ONSET,DURATION,STATE,TYPE,TEXT; the text may have commas. */
static int take_comment(struct lay *l, const char *line, struct err *err) {
    char number[2][64];
    double values[2];
    for (int i = 0; i < 4; i++) {
        size_t n = strcspn(line, ",");
        if (!line[n] ||
            (i < 2 && (!str_format(number[i], sizeof number[i], "%.*s", (int)n, line) || !str_to_f64(number[i], &values[i]))))
            return 0;
        line += n + 1;
    }
    return matrix_annotate(l->m, values[0], values[1] > 0 ? values[1] : NAN, (struct matrix_text){line, strlen(line)}, err);
}

static int take_channel(struct lay *l, const char *path, const char *key, const char *value, struct err *err) {
    int64_t place;
    if (!str_to_i64(value, &place) || place < 1 || place > LAY_MOST_CHANNELS)
        return err_set(err, ERR_INVALID, "%s: the place of channel %.40s is '%.40s'; expected a number from 1", path, key, value);
    l->n_labels += !l->labels[place - 1].n;
    l->labels[place - 1] = (struct matrix_text){key, strlen(key)};
    return 0;
}

static int take_line(struct lay *l, const char *path, const char *section, char *line, bool times, struct err *err) {
    if (times && !strcasecmp(section, "[Comments]"))
        return take_comment(l, line, err);
    char *equals = strchr(line, '=');
    if (!equals)
        return 0;
    *equals = '\0';
    const char *value = equals + 1;
    int rc = 0;
    if (times)
        rc = !strcasecmp(section, "[SampleTimes]") ? take_sample_time(l, line, value, err) : 0;
    else if (!strcasecmp(section, "[FileInfo]"))
        rc = take_file_info(l, path, line, value, err);
    else if (!strcasecmp(section, "[ChannelMap]"))
        rc = take_channel(l, path, line, value, err);
    else if (!strcasecmp(section, "[Patient]") && !strcasecmp(line, "TestDate"))
        str_copy(l->date, sizeof l->date, value);
    else if (!strcasecmp(section, "[Patient]") && !strcasecmp(line, "TestTime"))
        str_copy(l->time, sizeof l->time, value);
    *equals = '=';
    return rc;
}

/* Visits the lines of a copy: what the file is, or (times) what happens when in it. */
static int read_lay(struct lay *l, const char *path, const char *text, size_t len, struct arena *arena, bool times,
                    struct err *err) {
    char section[64] = "", *copy = arena_strndup(arena, text, len);
    int rc = copy ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    for (char *line = copy, *next; !rc && line && *line; line = next) {
        size_t n = strcspn(line, "\r\n");
        next = line + n + (line[n] != '\0');
        line[n] = '\0';
        line += strspn(line, " \t");
        if (*line == '[')
            str_copy(section, sizeof section, line);
        else if (*line)
            rc = take_line(l, path, section, line, times, err);
    }
    return rc;
}

/* "2014.12.19", "12/19/2014" (month first) or "19-12-2014", and "02:37:48". */
static void set_lay_start(const struct lay *l, struct eeg_start *start) {
    int64_t parts[6];
    char text[66], *at = text;
    str_format(text, sizeof text, "%s:%s", l->date, l->time);
    const char form = strchr(l->date, '/') ? '/' : strchr(l->date, '-') ? '-' : '.';
    for (int i = 0; i < 6; i++) {
        size_t n = strcspn(at, "./-:");
        const bool last = !at[n];
        at[n] = '\0';
        if (!str_to_i64(at, &parts[i]) || last != (i == 5))
            return;
        at += n + 1;
    }
    const int year = form == '.' ? 0 : 2,
              month = form == '.'   ? 1
                      : form == '/' ? 0
                                    : 1,
              day = form == '.'   ? 2
                    : form == '/' ? 1
                                  : 0;
    parts[year] += parts[year] < 100 ? 2000 : 0;
    if (civil_is_date((int)parts[year], (int)parts[month], (int)parts[day]) && parts[3] >= 0 && parts[3] < 24 && parts[4] >= 0 &&
        parts[4] < 60 && parts[5] >= 0 && parts[5] <= 60)
        *start = (struct eeg_start){
            (int)parts[year], (int)parts[month], (int)parts[day], (int)parts[3], (int)parts[4], (int)parts[5], 0, true};
}

static int check_lay(const struct lay *l, struct matrix *m, struct err *err) {
    const char *path = m->base.path;
    if (!*l->data_file || !l->rate_hz || l->channels < 0)
        return err_set(err, ERR_INVALID, "%s: [FileInfo] lacks %s", path,
                       !*l->data_file ? "File"
                       : !l->rate_hz  ? "SamplingRate"
                                      : "WaveformCount");
    if (l->type != 0 && l->type != 7)
        return err_set(err, ERR_UNSUPPORTED, "%s: DataType=%lld is not read; expected 0 (16 bits) or 7 (32 bits)", path,
                       (long long)l->type);
    if (l->n_labels != l->channels)
        return err_set(err, ERR_INVALID, "%s: WaveformCount is %lld, [ChannelMap] names %lld channels", path,
                       (long long)l->channels, (long long)l->n_labels);
    m->type = l->type == 7 ? MATRIX_I32 : MATRIX_I16;
    m->columns = (int)l->channels;
    return 0;
}

static int open_lay_samples(struct format_source *source, const struct lay *l, struct matrix *m, struct err *err) {
    const double calibration = isnan(l->calibration) ? 1 : l->calibration;
    int rc = 0;
    if (isnan(l->calibration))
        matrix_repair(m, "no calibration is stated: a step is taken as 1 uV");
    for (int64_t i = 0; i < l->channels && !rc; i++)
        rc = l->labels[i].n
                 ? matrix_add_microvolts(m, l->labels[i], calibration, err)
                 : err_set(err, ERR_INVALID, "%s: [ChannelMap] has no channel at place %lld", m->base.path, (long long)i + 1);
    if (rc || (rc = matrix_open_samples(source, m, l->data_file, err)))
        return rc;
    const size_t first = l->header_bytes > 0 ? (size_t)l->header_bytes : 0, stride = (size_t)matrix_stride(m);
    if (source->growth)
        return matrix_follow(m, source->growth, first, err);
    if (first > m->whole)
        return err_set(err, ERR_INVALID, "%s: %s has %zu bytes, its header alone %zu", m->base.path, l->data_file, m->whole, first);
    if ((m->whole - first) % stride)
        matrix_repair(m, "%zu bytes after the last whole sample are left out", (m->whole - first) % stride);
    return matrix_add_block(m, first, (int64_t)((m->whole - first) / stride), 0, err);
}

static int fill_persyst(struct format_source *source, struct matrix *m, struct err *err) {
    struct lay *l = arena_alloc(&m->arena, sizeof *l);
    char *text = NULL;
    int rc;
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", m->base.path);
    l->m = m;
    l->calibration = NAN;
    l->channels = l->type = -1;
    source->enough &= source->whole == source->bytes.len;
    if ((rc = matrix_read_text(m, &source->bytes, LAY_MOST_BYTES, &text, err)) ||
        (rc = read_lay(l, m->base.path, text, strlen(text), &m->arena, false, err)) || (rc = check_lay(l, m, err)) ||
        (rc = matrix_set_rate(m, l->rate_hz, false, err)) || (rc = open_lay_samples(source, l, m, err)) ||
        (!m->fed && (rc = read_lay(l, m->base.path, text, strlen(text), &m->arena, true, err))) ||
        (rc = matrix_place_marks(m, INFINITY, true, err)))
        return rc;
    set_lay_start(l, &m->info.start);
    return 0;
}

static const char *const persyst_endings[] = {".lay", NULL};
static const char *const persyst_parts[] = {".dat", NULL};

const struct recording_format format_persyst = {.name = "Persyst",
                                                .endings = persyst_endings,
                                                .part_endings = persyst_parts,
                                                .probe = lay_probe,
                                                .open = matrix_open,
                                                .fill = fill_persyst,
                                                .read = matrix_read,
                                                .feed = matrix_feed,
                                                .record_bytes = matrix_record_bytes,
                                                .close = matrix_close};
