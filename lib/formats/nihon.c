/* Nihon Kohden: EEG-1100 and its like: samples in .EEG, names of electrodes in .21E, events in .LOG, the start in .PNT. The layout
 * is known from other readers (EDFbrowser's nk2edf, MNE): control blocks list data blocks, which list channels by number; a sample
 * is an unsigned number of 16 bits around 0x8000, and behind the channels of each sample stands one of marks. Blocks are apart by
 * the time that passed between their starts. */

#include "formats/civil.h"
#include "formats/matrix.h"

enum { NK_NAMES = 256, NK_NAME_BYTES = 20, NK_LOG_BYTES = 45, NK_LOG_BLOCKS = 22, NK_MOST_TEXT = 1 << 20, NK_VERSION_BYTES = 16 };
/* Offsets: of a file, of a control block, of a data block. */
enum {
    NK_CONTROL = 0x81,
    NK_BLOCKS = 0x91,
    NK_LIST = 0x92,
    NK_WAVEFORM = 0x17FE,
    NK_IN_BLOCKS = 17,
    NK_IN_LIST = 18,
    NK_ENTRY = 20
};
enum { NK_START = 0x14, NK_RATE = 0x1A, NK_TENTHS = 0x1C, NK_CHANNELS = 0x26, NK_FIRST = 0x27, NK_CHANNEL = 10 };

static const char *const nk_versions[] = {"EEG-1100A V01.00", "EEG-1100B V01.00", "EEG-1100C V01.00",
                                          "QI-403A   V01.00", "QI-403A   V02.00", "EEG-2100  V01.00",
                                          "EEG-2100  V02.00", "DAE-2100D V01.30", "DAE-2100D V02.00"};

struct nk {
    struct matrix *m;
    char names[NK_NAMES][4 * NK_NAME_BYTES];
    uint8_t channels[256];
    int n_channels;
    int rate_hz;
    double first_s, end_s; /* clock of the first block, and where the newest ends */
    int64_t bytes;         /* of the samples so far */
    bool started;
};

static bool nk_version(const uint8_t *at) {
    for (size_t i = 0; i < sizeof nk_versions / sizeof *nk_versions; i++)
        if (!memcmp(at, nk_versions[i], NK_VERSION_BYTES))
            return true;
    return false;
}

static bool nihon_probe(const uint8_t *start, size_t n) {
    return n >= NK_LIST &&
           (!memcmp(start, "EEG-1200A V01.00", NK_VERSION_BYTES) || (nk_version(start) && nk_version(start + NK_CONTROL)));
}

/* The names of channels by number, where .21E gives none. */
static void nk_default_names(struct nk *k) {
    static const char *const first[] = {"FP1", "FP2", "F3", "F4", "C3", "C4", "P3", "P4",  "O1",  "O2", "F7", "F8", "T3",
                                        "T4",  "T5",  "T6", "FZ", "CZ", "PZ", "E",  "PG1", "PG2", "A1", "A2", "T1", "T2"};
    static const struct {
        const char *form;
        int at, n, from;
    } rows[] = {{"X%d", 26, 11, 1},  {"NA%d", 37, 5, 1},  {"DC%02d", 42, 32, 1}, {"BN%d", 74, 2, 1},   {"Mark%d", 76, 2, 1},
                {"NA%d", 78, 22, 6}, {"X%d", 100, 4, 12}, {"X%d", 104, 150, 16}, {"NA%d", 254, 1, 28}, {"Z", 255, 1, 0}};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        str_copy(k->names[i], sizeof k->names[i], first[i]);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int i = 0; i < rows[r].n; i++) {
            char *to = k->names[rows[r].at + i];
            int number = rows[r].from + i;
            if (rows[r].form[0] == 'D')
                str_format(to, sizeof k->names[0], "DC%02d", number);
            else
                str_format(to, sizeof k->names[0], number ? "%.*s%d" : "%.*s", (int)strcspn(rows[r].form, "%"), rows[r].form,
                           number);
        }
}

static int nk_get(const struct filebytes *bytes, size_t at, size_t n, uint8_t *buffer, const uint8_t **ret, struct err *err) {
    if (n > bytes->len || at > bytes->len - n)
        return err_set(err, ERR_INVALID, "%s ends before byte %zu: the file is damaged or was not copied completely", bytes->name,
                       at + n);
    return filebytes_get(bytes, at, n, buffer, ret, err);
}

/* "NAME.21E" beside "NAME.EEG", in the letter case that is there. NOT_FOUND is no error to its callers. */
static int nk_open(const struct format_source *source, const char *ending, char path[FORMAT_PATH_SIZE], struct filebytes *ret,
                   struct err *err) {
    const char *own = fsio_basename(source->bytes.name), *dot = strrchr(own, '.');
    char name[EEGFILE_NAME_SIZE];
    size_t whole;
    int rc = ERR_NOT_FOUND;
    for (int lower = 0; lower < 2 && rc == ERR_NOT_FOUND; lower++) {
        if (!str_format(name, sizeof name, "%.*s%s", dot ? (int)(dot - own) : (int)strlen(own), own, ending))
            return ERR_NOT_FOUND;
        for (char *c = name + strlen(name) - strlen(ending); lower && *c; c++)
            *c = (char)tolower((unsigned char)*c);
        rc = format_open_companion(source, name, path, ret, &whole, err);
        if (!rc && whole != ret->len) {
            filebytes_close(ret);
            rc = err_set(err, ERR_PRECONDITION, "%s: only its start is there", path);
        }
    }
    return rc;
}

/* NNNN=NAME in [ELECTRODE] and [REFERENCE]. */
static int read_21e(const struct format_source *source, struct nk *k, struct err *err) {
    char path[FORMAT_PATH_SIZE], *text = NULL;
    struct filebytes bytes;
    int rc = nk_open(source, ".21E", path, &bytes, err);
    if (rc == ERR_NOT_FOUND) {
        matrix_repair(k->m, "no .21E file beside it: electrodes have the names of their inputs");
        return 0;
    }
    rc = rc ? rc : matrix_read_text(k->m, &bytes, NK_MOST_TEXT, &text, err);
    filebytes_close(&bytes);
    bool inside = false;
    for (char *line = text, *next; !rc && line && *line; line = next) {
        size_t n = strcspn(line, "\r\n");
        next = line + n + (line[n] != '\0');
        line[n] = '\0';
        char *equals = strchr(line, '=');
        int64_t number;
        if (*line == '[')
            inside = strstr(line, "ELECTRODE") || strstr(line, "REFERENCE");
        if (!inside || !equals)
            continue;
        *equals = '\0';
        while (*line == '0' && line[1])
            line++;
        const char *name = str_to_i64(line, &number) && number >= 0 && number < NK_NAMES
                               ? matrix_keep(k->m, (struct matrix_text){equals + 1, strlen(equals + 1)})
                               : NULL;
        if (name && *name)
            str_copy(k->names[number], sizeof k->names[number], name);
    }
    return rc;
}

/* ---- blocks ---- */

static int bcd(uint8_t b) { return (b >> 4) * 10 + (b & 15); }

/* "YYMMDDhhmmss" in binary-coded decimals; NaN for no date. */
static double nk_clock(const uint8_t *p, struct eeg_start *ret) {
    struct civil at = {2000 + bcd(p[0]), bcd(p[1]), bcd(p[2]), bcd(p[3]), bcd(p[4]), bcd(p[5])};
    at.year -= at.year > 2080 ? 100 : 0;
    if (!civil_is_date(at.year, at.month, at.day) || at.hour > 23 || at.minute > 59 || at.second > 60)
        return NAN;
    *ret = (struct eeg_start){at.year, at.month, at.day, at.hour, at.minute, (int)at.second, 0, true};
    return civil_seconds(&at);
}

static bool nk_is_wide(int channel) { return (channel >= 42 && channel <= 73) || channel == 76 || channel == 77; }

/* Channels by number: inputs for other devices have a range of volts, electrodes one of 3.2 mV. */
static int add_nk_channels(struct nk *k, struct err *err) {
    struct matrix *m = k->m;
    for (int i = 0; i < k->n_channels; i++) {
        const bool wide = nk_is_wide(k->channels[i]);
        const double low = wide ? -12002.9 : -3200, high = wide ? 12002.56 : 3199.902, step = (high - low) / 65535;
        const char *name = k->names[k->channels[i]];
        int rc =
            matrix_add_signal(m, (struct matrix_text){name, strlen(name)}, (struct matrix_text){wide ? "mV" : "uV", 2}, step, err);
        if (rc)
            return rc;
        struct eeg_signal *s = &m->signals[m->info.n_signals - 1];
        s->offset = (low + 32768 * step) * (wide ? 1e3 : 1);
        s->physical_min = low;
        s->physical_max = high;
    }
    return 0;
}

/* The first block decides about the channels; the others must have the same. */
static int nk_layout(struct nk *k, const uint8_t *channels, int n, int rate_hz, struct err *err) {
    bool same = k->n_channels == n && k->rate_hz == rate_hz;
    for (int i = 0; i < n && k->n_channels; i++)
        same = same && k->channels[i] == channels[i * NK_CHANNEL];
    if (k->n_channels)
        return same ? 0
                    : err_set(err, ERR_UNSUPPORTED,
                              "%s: its blocks differ in channels or rate; export them as recordings of their own, or as EDF",
                              k->m->base.path);
    k->n_channels = n;
    k->rate_hz = rate_hz;
    for (int i = 0; i < n; i++)
        k->channels[i] = channels[i * NK_CHANNEL];
    k->m->type = MATRIX_OFFSET_I16;
    k->m->columns = n + 1;
    int rc = n && rate_hz ? matrix_set_rate_number(k->m, rate_hz, false, err)
                          : err_set(err, ERR_INVALID, "%s: a block has %d channels at %d Hz", k->m->base.path, n, rate_hz);
    return rc ? rc : add_nk_channels(k, err);
}

static int add_nk_block(struct nk *k, const struct filebytes *bytes, size_t whole, size_t at, struct err *err) {
    uint8_t fixed[NK_FIRST], list[256 * NK_CHANNEL];
    const uint8_t *p, *channels;
    struct eeg_start start = {0};
    struct matrix *m = k->m;
    int rc;
    if ((rc = nk_get(bytes, at, NK_FIRST, fixed, &p, err)))
        return rc;
    const int n = p[NK_CHANNELS], rate_hz = (p[NK_RATE] | p[NK_RATE + 1] << 8) & 0x3FFF;
    const double clock = nk_clock(p + NK_START, &start);
    int64_t samples = (int64_t)filebytes_u32(p + NK_TENTHS) * rate_hz / 10;
    if ((rc = nk_get(bytes, at + NK_FIRST, (size_t)n * NK_CHANNEL, list, &channels, err)) ||
        (rc = nk_layout(k, channels, n, rate_hz, err)))
        return rc;
    const size_t first = at + NK_FIRST + (size_t)n * NK_CHANNEL, stride = (size_t)matrix_stride(m);
    const int64_t there = first < whole ? (int64_t)((whole - first) / stride) : 0;
    if (samples > there) {
        matrix_repair(m, "a block ends early: %lld of %lld samples are there", (long long)there, (long long)samples);
        samples = there;
    }
    k->bytes += samples * (int64_t)stride;
    if (k->bytes > (int64_t)whole)
        return err_set(err, ERR_INVALID, "%s: its blocks have %lld bytes of samples and the file %zu: they overlap", m->base.path,
                       (long long)k->bytes, whole);
    if (!k->started && start.known)
        m->info.start = start;
    k->first_s = k->started ? k->first_s : clock;
    const double stated = clock - k->first_s; /* to a second */
    const double place = k->started && stated > k->end_s + 1 ? stated : k->end_s;
    if (k->started && isnan(stated))
        matrix_repair(m, "a block without a date is taken as following the one before");
    k->started = true;
    k->end_s = place + (double)samples * m->info.record_s;
    return matrix_add_block(m, first, samples, place, err);
}

static int read_blocks_of_nk(struct nk *k, const struct filebytes *bytes, size_t whole, struct err *err) {
    uint8_t word[NK_ENTRY], one[1];
    const uint8_t *p;
    int rc = nk_get(bytes, NK_WAVEFORM, 1, one, &p, err);
    if (rc)
        return rc;
    if (*p != 1)
        return err_set(err, ERR_INVALID, "%s: byte %d is %d; expected 1, a block of samples", bytes->name, NK_WAVEFORM, *p);
    if ((rc = nk_get(bytes, NK_BLOCKS, 1, one, &p, err)))
        return rc;
    for (int i = 0, n = *p; i < n; i++) {
        if ((rc = nk_get(bytes, NK_LIST + (size_t)i * NK_ENTRY, 4, word, &p, err)))
            return rc;
        const size_t control = filebytes_u32(p);
        if ((rc = nk_get(bytes, control + NK_IN_BLOCKS, 1, one, &p, err)))
            return rc;
        for (int j = 0, blocks = *p; j < blocks; j++)
            if ((rc = nk_get(bytes, control + NK_IN_LIST + (size_t)j * NK_ENTRY, 4, word, &p, err)) ||
                (rc = add_nk_block(k, bytes, whole, filebytes_u32(p), err)))
                return rc;
    }
    return 0;
}

/* ---- events ---- */

static int digits(const uint8_t *p, int n) {
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (!isdigit(p[i]))
            return -1;
        value = 10 * value + (p[i] - '0');
    }
    return value;
}

/* A text of 20 bytes and the time since the start, "hhmmss"; microseconds are in the entry of a second list, where there is one. */
static int add_nk_event(struct nk *k, const uint8_t *entry, const uint8_t *fine, struct err *err) {
    const int h = digits(entry + 20, 2), m = digits(entry + 22, 2), s = digits(entry + 24, 2), us = fine ? digits(fine + 24, 6) : 0;
    if (h < 0 || m < 0 || s < 0)
        return 0;
    size_t n = 0;
    while (n < NK_NAME_BYTES && entry[n])
        n++;
    return matrix_annotate(k->m, 3600.0 * h + 60 * m + s + (us > 0 ? us * 1e-6 : 0), NAN,
                           (struct matrix_text){(const char *)entry, n}, err);
}

static int read_nk_events(struct nk *k, const struct filebytes *bytes, struct err *err) {
    uint8_t word[4], one[1], a[NK_LOG_BYTES], b[NK_LOG_BYTES];
    const uint8_t *p, *entry, *fine;
    int rc = nk_get(bytes, NK_BLOCKS, 1, one, &p, err);
    const int blocks = rc ? 0 : *p;
    for (int i = 0; i < blocks && i < NK_LOG_BLOCKS; i++) {
        if ((rc = nk_get(bytes, NK_LIST + (size_t)i * NK_ENTRY, 4, word, &p, err)))
            return rc;
        const size_t list = filebytes_u32(p);
        size_t second = nk_get(bytes, NK_LIST + (size_t)(i + NK_LOG_BLOCKS) * NK_ENTRY, 4, word, &p, NULL) ? 0 : filebytes_u32(p);
        if ((rc = nk_get(bytes, list + 0x12, 1, one, &p, err)))
            return rc;
        for (size_t j = 0, n = *p; j < n; j++) {
            if ((rc = nk_get(bytes, list + 0x14 + j * NK_LOG_BYTES, NK_LOG_BYTES, a, &entry, err)))
                return rc;
            bool known = second && !nk_get(bytes, second + 0x14 + j * NK_LOG_BYTES, NK_LOG_BYTES, b, &fine, NULL);
            if ((rc = add_nk_event(k, entry, known ? fine : NULL, err)))
                return rc;
        }
    }
    return rc;
}

static int read_log(const struct format_source *source, struct nk *k, struct err *err) {
    char path[FORMAT_PATH_SIZE];
    uint8_t version[NK_VERSION_BYTES];
    const uint8_t *p;
    struct filebytes bytes;
    int rc = nk_open(source, ".LOG", path, &bytes, err);
    if (rc == ERR_NOT_FOUND) {
        matrix_repair(k->m, "no .LOG file beside it: the recording is read without events");
        return 0;
    }
    if (rc)
        return rc;
    if (!(rc = nk_get(&bytes, 0, sizeof version, version, &p, err)))
        rc = nk_version(p) ? read_nk_events(k, &bytes, err)
                           : err_set(err, ERR_INVALID, "%s does not begin as a log of this recorder", path);
    filebytes_close(&bytes);
    return rc;
}

/* ---- opening ---- */

static int fill_nihon(struct format_source *source, struct matrix *m, struct err *err) {
    struct nk *k = arena_alloc(&m->arena, sizeof *k);
    uint8_t version[NK_VERSION_BYTES];
    const uint8_t *p;
    int rc = k ? nk_get(&source->bytes, 0, sizeof version, version, &p, err)
               : err_set(err, ERR_EXHAUSTED, "out of memory opening %s", m->base.path);
    if (rc)
        return rc;
    if (!nk_version(p))
        return err_set(err, ERR_UNSUPPORTED, "%s is a recording of %.*s, which is not read; export it as EDF", m->base.path,
                       NK_VERSION_BYTES, (const char *)p);
    k->m = m;
    nk_default_names(k);
    if (source->listed) {
        (void)read_21e(source, k, err);
        (void)read_log(source, k, err);
        return ERR_NOT_FOUND;
    }
    if ((rc = read_21e(source, k, err)) || (rc = read_blocks_of_nk(k, &source->bytes, source->whole, err)) ||
        (rc = read_log(source, k, err)))
        return rc;
    m->whole = source->whole;
    m->data = source->bytes;
    m->data.name = m->base.path;
    filebytes_init(&source->bytes, source->bytes.name);
    return 0;
}

static const char *const nihon_endings[] = {".eeg", NULL};
static const char *const nihon_parts[] = {".21e", ".log", NULL};

const struct recording_format format_nihon = {.name = "Nihon Kohden",
                                              .endings = nihon_endings,
                                              .part_endings = nihon_parts,
                                              .probe = nihon_probe,
                                              .open = matrix_open,
                                              .fill = fill_nihon,
                                              .read = matrix_read,
                                              .close = matrix_close};
