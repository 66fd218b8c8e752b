/* BrainVision Core Data Format 1.0 and 2.0: a header (.vhdr, or .ahdr of V-Amp recorders) of lines KEY=VALUE in sections, which
 * names a file of samples (.eeg, .avg, .seg) and one of markers (.vmrk, .amrk). Source: "BrainVision Core Data Format 1.0", Brain
 * Products, 2018. Markers become annotations; "New Segment" markers with dates become gaps. */

#include "formats/civil.h"
#include "formats/matrix.h"
#include "formats/rate.h"

enum { MOST_TEXT_BYTES = 64 << 20, VALUE_SIZE = 512, MOST_CHANNELS = 65536, SUMMER_TIME_S = 61 * 60 };

/* What the header says; texts point into its copy. */
struct vhdr {
    const char *name; /* of the header file, for "$b" */
    char data_file[EEGFILE_NAME_SIZE], marker_file[EEGFILE_NAME_SIZE];
    const char *format, *orientation, *type, *binary, *big_endian, *segmentation, *averaged;
    int64_t channels, points; /* -1: not stated */
    const char *interval_us;
    const char *const *channel; /* (channels) the value of ChN, or NULL */
};

static bool vhdr_magic(const char *text, const char *what) {
    static const char *const makers[] = {"BrainVision", "Brain Vision"};
    text += !strncmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(makers[i]);
        if (!strncasecmp(text, makers[i], n)) {
            const char *line_end = text + strcspn(text, "\r\n");
            const char *found = strstr(text, what);
            return found && found < line_end;
        }
    }
    return false;
}

static bool brainvision_probe(const uint8_t *start, size_t n) {
    char text[FORMAT_PROBE_BYTES + 1];
    memcpy(text, start, n);
    text[n] = '\0';
    return vhdr_magic(text, "Header File");
}

/* Cuts the next line and its blanks; NULL at the end. */
static char *next_setting(char **at) {
    char *line = *at;
    if (!*line)
        return NULL;
    size_t n = strcspn(line, "\r\n");
    *at = line + n + (line[n] != '\0');
    line[n] = '\0';
    line += strspn(line, " \t");
    for (n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t');)
        line[--n] = '\0';
    return line;
}

/* "DataFile=$b.eeg": the name without folders, "$b" being the header's own without its ending. */
static int file_name(const struct vhdr *h, const char *value, char ret[EEGFILE_NAME_SIZE], struct err *err) {
    const char *own = fsio_basename(h->name), *dot = strrchr(own, '.');
    for (const char *c = value; *c; c++)
        value = *c == '/' || *c == '\\' ? c + 1 : value;
    const char *mark = strstr(value, "$b");
    bool fits = mark ? str_format(ret, EEGFILE_NAME_SIZE, "%.*s%.*s%s", (int)(mark - value), value,
                                  dot ? (int)(dot - own) : (int)strlen(own), own, mark + 2)
                     : str_copy(ret, EEGFILE_NAME_SIZE, value);
    return fits ? 0 : err_set(err, ERR_RANGE, "%s: the name of a file is too long: %.80s", h->name, value);
}

/* One of [Common Infos] or [Binary Infos]. */
static int take_setting(struct vhdr *h, const char *key, const char *value, struct err *err) {
    if (!strcasecmp(key, "DataFile"))
        return file_name(h, value, h->data_file, err);
    if (!strcasecmp(key, "MarkerFile"))
        return *value ? file_name(h, value, h->marker_file, err) : 0;
    const struct {
        const char *key, **to;
    } texts[] = {{"DataFormat", &h->format},
                 {"DataOrientation", &h->orientation},
                 {"DataType", &h->type},
                 {"BinaryFormat", &h->binary},
                 {"UseBigEndianOrder", &h->big_endian},
                 {"SamplingInterval", &h->interval_us},
                 {"SegmentationType", &h->segmentation},
                 {"Averaged", &h->averaged}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcasecmp(key, texts[i].key))
            *texts[i].to = value;
    bool good = true;
    if (!strcasecmp(key, "NumberOfChannels"))
        good = str_to_i64(value, &h->channels) && h->channels > 0 && h->channels <= MOST_CHANNELS;
    else if (!strcasecmp(key, "DataPoints"))
        good = str_to_i64(value, &h->points);
    else if (!strcasecmp(key, "SamplingInterval"))
        good = rate_of_decimal(value, true, &(struct exact_rate){0});
    return good ? 0 : err_set(err, ERR_INVALID, "%s: %s=%.80s; expected a number above 0", h->name, key, value);
}

/* Lines of the sections that count, up to [Comment], which is free text. `channel` (channels) may be NULL: companions alone. */
static int read_vhdr(struct vhdr *h, char *text, const char **channel, struct err *err) {
    char section[64] = "";
    int rc = 0;
    for (char *line; !rc && (line = next_setting(&text)) && strcasecmp(line, "[Comment]") != 0;) {
        char *equals = strchr(line, '=');
        int64_t number;
        if (*line == '[')
            str_copy(section, sizeof section, line);
        if (*line == '[' || *line == ';' || !equals)
            continue;
        *equals = '\0';
        if (!strcasecmp(section, "[Channel Infos]") && !strncasecmp(line, "Ch", 2) && str_to_i64(line + 2, &number) && number > 0 &&
            number <= MOST_CHANNELS && channel)
            channel[number - 1] = equals + 1;
        else if (!strcasecmp(section, "[Common Infos]") || !strcasecmp(section, "[Binary Infos]"))
            rc = take_setting(h, line, equals + 1, err);
    }
    return rc              ? rc
           : *h->data_file ? 0
                           : err_set(err, ERR_INVALID, "%s: it names no DataFile; expected one in [Common Infos]", h->name);
}

static int unread(const struct vhdr *h, struct err *err, const char *what, const char *value, const char *expected) {
    return err_set(err, ERR_UNSUPPORTED, "%s: %s=%.40s is not read; export the recording with %s, or as EDF", h->name, what, value,
                   expected);
}

static int check_vhdr(const struct vhdr *h, struct matrix *m, struct err *err) {
    static const struct {
        const char *name;
        enum matrix_type type;
    } types[] = {{"INT_16", MATRIX_I16}, {"INT_32", MATRIX_I32}, {"IEEE_FLOAT_32", MATRIX_F32}};
    if (!h->format || strcasecmp(h->format, "BINARY") != 0)
        return unread(h, err, "DataFormat", h->format ? h->format : "(missing)", "DataFormat=BINARY");
    if (h->type && strcasecmp(h->type, "TIMEDOMAIN") != 0)
        return unread(h, err, "DataType", h->type, "DataType=TIMEDOMAIN");
    if (h->big_endian && strcasecmp(h->big_endian, "NO") != 0)
        return unread(h, err, "UseBigEndianOrder", h->big_endian, "UseBigEndianOrder=NO");
    if (h->segmentation && strcasecmp(h->segmentation, "NOTSEGMENTED") != 0)
        return unread(h, err, "SegmentationType", h->segmentation, "SegmentationType=NOTSEGMENTED");
    if (h->averaged && strcasecmp(h->averaged, "NO") != 0)
        return unread(h, err, "Averaged", h->averaged, "Averaged=NO");
    const char *orientation = h->orientation ? h->orientation : "MULTIPLEXED";
    m->by_signal = !strcasecmp(orientation, "VECTORIZED");
    if (!m->by_signal && strcasecmp(orientation, "MULTIPLEXED") != 0)
        return unread(h, err, "DataOrientation", orientation, "DataOrientation=MULTIPLEXED");
    const char *binary = h->binary ? h->binary : "(missing)";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcasecmp(binary, types[i].name)) {
            m->type = types[i].type;
            return h->channels > 0 && h->interval_us ? 0
                                                     : err_set(err, ERR_INVALID, "%s: %s is missing in [Common Infos]", h->name,
                                                               h->channels > 0 ? "SamplingInterval" : "NumberOfChannels");
        }
    return unread(h, err, "BinaryFormat", binary, "BinaryFormat=INT_16 or IEEE_FLOAT_32");
}

/* "\1" stands for a comma. */
static struct matrix_text field_of(const char **at, char buf[VALUE_SIZE]) {
    size_t n = strcspn(*at, ","), kept = 0;
    for (size_t i = 0; i < n && kept < VALUE_SIZE; i++) {
        bool comma = (*at)[i] == '\\' && i + 1 < n && (*at)[i + 1] == '1';
        buf[kept++] = comma ? ',' : (*at)[i];
        i += comma;
    }
    *at += n + ((*at)[n] == ',');
    return (struct matrix_text){buf, kept};
}

/* ChN=NAME,REFERENCE,RESOLUTION,UNIT: the resolution is 1 and the unit µV where none is stated. */
static int add_channel(const struct vhdr *h, struct matrix *m, int64_t index, const char *value, struct err *err) {
    char name[VALUE_SIZE], reference[VALUE_SIZE], resolution[VALUE_SIZE], unit[VALUE_SIZE];
    double scale = 1;
    if (!value)
        return err_set(err, ERR_INVALID, "%s: Ch%lld is missing in [Channel Infos]; NumberOfChannels is %lld", h->name,
                       (long long)index + 1, (long long)h->channels);
    struct matrix_text label = field_of(&value, name);
    (void)field_of(&value, reference);
    struct matrix_text number = field_of(&value, resolution), units = field_of(&value, unit);
    number.n = number.n < VALUE_SIZE ? number.n : VALUE_SIZE - 1;
    resolution[number.n] = '\0';
    if (number.n && !str_to_f64(resolution, &scale))
        return err_set(err, ERR_INVALID, "%s: the resolution of Ch%lld is '%.40s'; expected a number", h->name,
                       (long long)index + 1, resolution);
    return units.n ? matrix_add_signal(m, label, units, scale, err) : matrix_add_microvolts(m, label, scale, err);
}

/* ---- markers ---- */

/* "20240131235959123456", with microseconds; NaN for another text and for zeros. */
static double date_of(const char *text, struct eeg_start *ret) {
    static const int widths[] = {4, 2, 2, 2, 2, 2};
    int values[6] = {0};
    if (strspn(text, "0123456789") != 20 || text[20])
        return NAN;
    const char *c = text;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < widths[i]; k++)
            values[i] = 10 * values[i] + (*c++ - '0');
    double microseconds = 0;
    while (*c)
        microseconds = 10 * microseconds + (*c++ - '0');
    if (!civil_is_date(values[0], values[1], values[2]) || values[3] > 23 || values[4] > 59 || values[5] > 60)
        return NAN;
    const struct civil at = {values[0], values[1], values[2], values[3], values[4], values[5] + microseconds / 1e6};
    *ret = (struct eeg_start){values[0], values[1], values[2], values[3], values[4], values[5], microseconds / 1e6, true};
    return civil_seconds(&at);
}

/* MkN=TYPE,DESCRIPTION,POSITION,SIZE,CHANNEL[,DATE]; positions count from 1. */
static int take_marker(struct matrix *m, const char *value, struct err *err) {
    char type[VALUE_SIZE], description[VALUE_SIZE], number[VALUE_SIZE], points[VALUE_SIZE], channel[VALUE_SIZE], date[VALUE_SIZE];
    int64_t position, size = 1;
    struct matrix_text what = field_of(&value, type), text = field_of(&value, description);
    char *const ends[] = {number, points, channel, date};
    for (int i = 0; i < 4; i++) {
        struct matrix_text field = field_of(&value, ends[i]);
        ends[i][field.n < VALUE_SIZE ? field.n : VALUE_SIZE - 1] = '\0';
    }
    if (!str_to_i64(number, &position) || position < 1)
        return ERR_NOT_FOUND;
    (void)str_to_i64(points, &size);
    if (what.n == 11 && !strncasecmp(type, "New Segment", 11)) {
        struct eeg_start start = {0};
        double at = date_of(date, &start);
        if (position == 1 && start.known)
            m->info.start = start;
        return matrix_add_mark(m, position - 1, at, NAN, err);
    }
    return matrix_annotate(m, (double)(position - 1) * m->info.record_s, size > 1 ? (double)size * m->info.record_s : NAN,
                           text.n ? text : what, err);
}

/* Annotations are counted in samples until the gaps are known. */
static int place_segments(struct matrix *m, struct err *err) {
    int rc = matrix_place_marks(m, SUMMER_TIME_S, false, err);
    for (size_t i = 0; !rc && i < m->info.n_annotations && m->info.n_segments > 1; i++)
        m->annotations[i].onset_s = matrix_file_time(m, round(m->annotations[i].onset_s / m->info.record_s));
    return rc;
}

/* False in *ret_whole when only the start of the markers is there. */
static int read_markers(struct format_source *source, const struct vhdr *h, struct matrix *m, struct err *err) {
    char path[FORMAT_PATH_SIZE], *text = NULL;
    struct filebytes bytes;
    size_t whole = 0, bad = 0;
    if (!*h->marker_file)
        return 0;
    int rc = format_open_companion(source, h->marker_file, path, &bytes, &whole, err);
    if (rc == ERR_NOT_FOUND) {
        matrix_repair(m, "its marker file %.120s is not there: the recording is read without markers", h->marker_file);
        return 0;
    }
    if (rc)
        return rc;
    source->enough &= whole == bytes.len;
    rc = matrix_read_text(m, &bytes, MOST_TEXT_BYTES, &text, err);
    filebytes_close(&bytes);
    if (rc)
        return rc;
    if (!vhdr_magic(text, "Marker File"))
        return err_set(err, ERR_INVALID, "%s: its marker file %s does not begin as one of BrainVision", m->base.path,
                       h->marker_file);
    bool inside = false;
    for (char *line; !rc && (line = next_setting(&text));) {
        char *equals = strchr(line, '=');
        if (*line == '[')
            inside = !strcasecmp(line, "[Marker Infos]");
        else if (inside && equals && !strncasecmp(line, "Mk", 2) && (rc = take_marker(m, equals + 1, err)) == ERR_NOT_FOUND)
            bad++, rc = 0;
    }
    if (bad)
        matrix_repair(m, "%zu markers without a position were skipped", bad);
    return rc ? rc : place_segments(m, err);
}

/* ---- opening ---- */

/* The file of the samples, and how many there are. */
static int open_samples(struct format_source *source, const struct vhdr *h, struct matrix *m, struct err *err) {
    int rc = matrix_open_samples(source, m, h->data_file, err);
    if (source->listed)
        (void)read_markers(source, h, m, err);
    if (rc)
        return rc;
    const size_t stride = (size_t)matrix_stride(m), rest = m->whole % stride;
    const int64_t n = (int64_t)(m->whole / stride);
    if (source->growth)
        return matrix_follow(m, source->growth, 0, err);
    if (rest && m->by_signal)
        return err_set(err, ERR_INVALID,
                       "%s: %s has %zu bytes, no whole number of samples of %lld signals; fetch or export it again", h->name,
                       h->data_file, m->whole, (long long)h->channels);
    if (rest)
        matrix_repair(m, "%zu bytes after the last whole sample are left out", rest);
    if (h->points >= 0 && h->points != n)
        matrix_repair(m, "header counts %lld samples, the file holds %lld: all are used", (long long)h->points, (long long)n);
    return matrix_add_block(m, 0, n, 0, err);
}

static int fill_brainvision(struct format_source *source, struct matrix *m, struct err *err) {
    struct vhdr h = {.name = m->base.path, .channels = -1, .points = -1};
    const char **channel = arena_alloc(&m->arena, MOST_CHANNELS * sizeof *channel);
    char *text = NULL;
    int rc;
    if (!channel)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", h.name);
    source->enough &= source->whole == source->bytes.len;
    if ((rc = matrix_read_text(m, &source->bytes, MOST_TEXT_BYTES, &text, err)) || (rc = read_vhdr(&h, text, channel, err)) ||
        (rc = check_vhdr(&h, m, err)) || (rc = matrix_set_rate(m, h.interval_us, true, err)))
        return rc;
    m->columns = (int)h.channels + str_ends_nocase(h.name, ".ahdr"); /* V-Amp recorders add a column that has no entry */
    for (int64_t i = 0; i < h.channels; i++)
        if ((rc = add_channel(&h, m, i, channel[i], err)))
            return rc;
    rc = open_samples(source, &h, m, err);
    return rc || m->fed ? rc : read_markers(source, &h, m, err);
}

static const char *const brainvision_endings[] = {".vhdr", ".ahdr", NULL};
static const char *const brainvision_parts[] = {".eeg", ".vmrk", ".amrk", ".avg", ".seg", NULL};

const struct recording_format format_brainvision = {.name = "BrainVision",
                                                    .endings = brainvision_endings,
                                                    .part_endings = brainvision_parts,
                                                    .probe = brainvision_probe,
                                                    .open = matrix_open,
                                                    .fill = fill_brainvision,
                                                    .read = matrix_read,
                                                    .feed = matrix_feed,
                                                    .record_bytes = matrix_record_bytes,
                                                    .close = matrix_close};
