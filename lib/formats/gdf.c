/* GDF 1.9 and 2: a header of 256 bytes, 256 more for each signal, records in which each signal has its samples one after another in
 * a type of its own, and a table of events at the end. Source: A. Schlögl, "GDF - a general dataformat for biosignals".
 * Little-endian. Events have a code of 16 bits; its name in the file, else its number, is
 * their text. */

#include "base/order.h"
#include "formats/civil.h"
#include "formats/matrix.h"
#include "formats/rate.h"
#include "formats/tal.h"

enum { BLOCK = 256, MOST_SIGNALS = 4096, MOST_EVENTS = 1 << 20, PIECE_BYTES = 256 << 10, MOST_RECORD = 64 << 20 };
static const size_t MOST_MEMORY = (size_t)1 << 30;

struct gdf_layout {
    int type, bytes;
    size_t offset; /* in a record */
};
struct gdf {
    struct eegfile base;
    struct eeg_info info;
    struct arena arena;
    struct filebytes bytes;
    struct eeg_signal *signals;
    struct gdf_layout *layouts;
    struct eeg_segment segment;
    size_t head_bytes, record_bytes;
    double version;
};

static uint64_t little(const uint8_t *p, int n) {
    uint64_t value = 0;
    for (int i = n - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}
static double f64_at(const uint8_t *p) {
    const uint64_t bits = little(p, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static double f32_at(const uint8_t *p) {
    const uint32_t bits = (uint32_t)little(p, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Bytes of a sample; 0: not a type of samples. */
static int type_bytes(uint32_t type) {
    static const int bytes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8};
    return type < sizeof bytes / sizeof *bytes ? bytes[type] : type == 16 ? 4 : type == 17 ? 8 : type == 279 || type == 535 ? 3 : 0;
}

static double sample_at(const uint8_t *p, const struct gdf_layout *l) {
    if (l->type == 16)
        return f32_at(p);
    if (l->type == 17)
        return f64_at(p);
    const uint64_t value = little(p, l->bytes);
    const bool is_signed = l->type == 279 || (l->type < 9 && l->type % 2);
    if (!is_signed)
        return (double)value;
    const int shift = 64 - 8 * l->bytes;
    return (double)((int64_t)(value << shift) >> shift);
}

static bool gdf_probe(const uint8_t *start, size_t n) { return n >= 8 && !memcmp(start, "GDF ", 4); }

/* ---- the header ---- */

static const char *keep_text(struct gdf *g, const uint8_t *bytes, size_t n) {
    char *text = arena_alloc(&g->arena, 3 * n + 1);
    size_t len = 0;
    while (len < n && bytes[len])
        len++;
    if (text)
        tal_text(text, 3 * n + 1, bytes, len, NULL);
    return text ? text : "";
}

/* Days since the year 0 in units of 2^-32. */
static void set_start(struct gdf *g, uint64_t stamp) {
    static const int64_t to_1970 = 719529;
    const double seconds = (double)(stamp & 0xFFFFFFFF) * (86400.0 / 4294967296.0);
    const int64_t days = (int64_t)(stamp >> 32) - to_1970;
    const time_t t = (time_t)(days * 86400);
    struct eeg_start *start = &g->info.start;
    struct tm tm;
    if (!stamp || days < -700000 || days > 3000000 || !gmtime_r(&t, &tm))
        return;
    const double whole = floor(round(seconds * 1e4) / 1e4);
    const int second = (int)whole;
    *start = (struct eeg_start){tm.tm_year + 1900,        tm.tm_mon + 1, tm.tm_mday, second / 3600, second / 60 % 60, second % 60,
                                fmax(0, seconds - whole), true};
    start->known = civil_is_date(start->year, start->month, start->day) && second < 86400;
}

/* A unit by its code of ISO 11073: the base in the upper bits, the decimal factor in the lower five. */
static void set_unit(struct gdf *g, struct eeg_signal *s, unsigned code) {
    static const struct {
        int code;
        double to_uv;
        const char *name;
    } volts[] = {{4256, 1e6, "V"}, {4274, 1e3, "mV"}, {4275, 1, "uV"}, {4276, 1e-3, "nV"}};
    s->unit = "";
    s->unit_assumed = s->unit_unstated = s->volt = !code;
    for (size_t i = 0; i < sizeof volts / sizeof *volts; i++)
        if (volts[i].code == (int)code) {
            s->unit = volts[i].name;
            s->volt = true;
            s->gain *= volts[i].to_uv;
            s->offset *= volts[i].to_uv;
        }
    if (!s->volt && code != 512) {
        char *name = arena_alloc(&g->arena, 24);
        if (name && str_format(name, 24, "unit %u", code))
            s->unit = name;
    }
}

/* Signal i of n; `table` are the arrays of their fields, each for all signals. */
static int take_signal(struct gdf *g, const uint8_t *table, int i, int n, struct err *err) {
    struct eeg_signal *s = &g->signals[i];
    const size_t at = (size_t)i, all = (size_t)n;
    const uint32_t type = (uint32_t)little(table + all * 220 + at * 4, 4);
    *s = (struct eeg_signal){.label = keep_text(g, table + at * 16, 16),
                             .transducer = keep_text(g, table + all * 16 + at * 80, 80),
                             .prefilter = "",
                             .note = "",
                             .physical_min = f64_at(table + all * 104 + at * 8),
                             .physical_max = f64_at(table + all * 112 + at * 8),
                             .digital_min = f64_at(table + all * 120 + at * 8),
                             .digital_max = f64_at(table + all * 128 + at * 8),
                             .samples_per_record = (int64_t)little(table + all * 216 + at * 4, 4)};
    const double range = s->digital_max - s->digital_min;
    g->layouts[i] = (struct gdf_layout){(int)type, type_bytes(type), g->record_bytes};
    if (!g->layouts[i].bytes)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: signal %d (%s) has samples of type %u; expected integers or floats; export it as EDF", g->base.path,
                       i + 1, s->label, type);
    s->gain = (s->physical_max - s->physical_min) / range;
    s->offset = s->physical_min - s->digital_min * s->gain;
    s->usable = isfinite(s->gain) && isfinite(s->offset) && s->gain != 0 && s->samples_per_record > 0;
    s->note = s->usable ? "" : "its range or its number of samples is none";
    s->rate_hz = (double)s->samples_per_record * (double)g->info.duration_den / (double)g->info.duration_num;
    set_unit(g, s, (unsigned)little(table + all * 102 + at * 2, 2));
    g->record_bytes += (size_t)s->samples_per_record * (size_t)g->layouts[i].bytes;
    return g->record_bytes > MOST_RECORD
               ? err_set(err, ERR_INVALID, "%s: a record has more than %d bytes", g->base.path, MOST_RECORD)
               : 0;
}

static int take_signals(struct gdf *g, int n, struct err *err) {
    const uint8_t *table;
    uint8_t *buffer = arena_alloc(&g->arena, (size_t)n * BLOCK);
    g->signals = arena_alloc(&g->arena, (size_t)n * sizeof *g->signals);
    g->layouts = arena_alloc(&g->arena, (size_t)n * sizeof *g->layouts);
    if (!buffer || !g->signals || !g->layouts)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", g->base.path);
    int rc = filebytes_get(&g->bytes, BLOCK, (size_t)n * BLOCK, buffer, &table, err);
    for (int i = 0; i < n && !rc; i++)
        rc = take_signal(g, table, i, n, err);
    g->info.n_signals = n;
    g->info.signals = g->base.signals = g->signals;
    return rc;
}

/* The continued fraction of seconds, up to the first that is the same double: 1/300 of the reciprocal of 300. */
static void as_fraction(double seconds, int64_t *ret_num, int64_t *ret_den) {
    static const double most = 4294967296.0;
    double rest = seconds, num[2] = {0, 1}, den[2] = {1, 0};
    do {
        const double whole = floor(rest), next_num = whole * num[1] + num[0], next_den = whole * den[1] + den[0];
        if (next_num > most || next_den > most)
            break;
        num[0] = num[1];
        den[0] = den[1];
        num[1] = next_num;
        den[1] = next_den;
        rest = 1 / (rest - whole);
    } while (num[1] / den[1] != seconds);
    *ret_num = (int64_t)num[1];
    *ret_den = (int64_t)den[1];
}

/* Seconds of a record: two integers, and from 2.21 on a double. Programs that go on with integers there write no double of a
 * length that a record has. */
static void take_duration(const struct gdf *g, const uint8_t *bytes, int64_t *ret_num, int64_t *ret_den) {
    const double seconds = f64_at(bytes);
    *ret_num = (int64_t)little(bytes, 4);
    *ret_den = (int64_t)little(bytes + 4, 4);
    if (g->version >= 2.21 && seconds >= 1e-6 && seconds <= 1e6)
        as_fraction(seconds, ret_num, ret_den);
}

static int take_header(struct gdf *g, const uint8_t *head, size_t whole, struct err *err) {
    char version[5];
    str_format(version, sizeof version, "%.4s", (const char *)head + 4);
    if (!str_to_f64(version, &g->version) || g->version < 1.9 || g->version >= 3)
        return err_set(err, ERR_UNSUPPORTED, "%s: GDF %s is not read, only 1.9 to 2; export it as EDF with MNE or BioSig",
                       g->base.path, version);
    g->head_bytes = (size_t)little(head + 184, 2) * BLOCK;
    g->info.n_records = (int64_t)little(head + 236, 8);
    int64_t num, den;
    take_duration(g, head + 244, &num, &den);
    const int64_t common = rate_divisor(num, den);
    const int n = (int)little(head + 252, 2);
    if (num <= 0 || den <= 0 || n < 1 || n > MOST_SIGNALS || g->head_bytes < (size_t)(n + 1) * BLOCK)
        return err_set(err, ERR_INVALID, "%s: %d signals, a header of %zu bytes, records of %lld/%lld s; expected numbers above 0",
                       g->base.path, n, g->head_bytes, (long long)num, (long long)den);
    if (g->bytes.len < (size_t)(n + 1) * BLOCK)
        return err_set(err, ERR_INVALID, "%s has %zu bytes; its header has %zu; copy it again", g->base.path, whole, g->head_bytes);
    g->info.duration_num = num / common;
    g->info.duration_den = den / common;
    g->info.record_s = (double)num / (double)den;
    g->info.patient = keep_text(g, head + 8, 66);
    g->info.recording = keep_text(g, head + 88, 64);
    set_start(g, little(head + 168, 8));
    return take_signals(g, n, err);
}

/* The file's only repair; text: in the arena, or NULL when there was no room. */
static int note_repair(struct gdf *g, const char *text, struct err *err) {
    const char **repairs = arena_alloc(&g->arena, sizeof *repairs);
    if (!repairs || !(*repairs = text))
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", g->base.path);
    g->info.repairs = repairs;
    g->info.n_repairs = 1;
    return 0;
}

/* Only complete records count; a recorder that was cut off states −1. */
static int count_records(struct gdf *g, size_t whole, struct err *err) {
    const int64_t there = whole > g->head_bytes && g->record_bytes ? (int64_t)((whole - g->head_bytes) / g->record_bytes) : 0;
    const int64_t stated = g->info.n_records;
    if (!there)
        return err_set(err, ERR_INVALID, "%s: there is no complete record behind the header", g->base.path);
    const bool whole_header = stated >= 0 && stated <= there;
    g->info.n_records = whole_header ? stated : there;
    if (!whole_header &&
        note_repair(
            g, arena_printf(&g->arena, "the header states %lld records, and there are %lld", (long long)stated, (long long)there),
            err))
        return err->code;
    g->info.duration_s = (double)g->info.n_records * g->info.record_s;
    g->segment = (struct eeg_segment){0, g->info.n_records, 0};
    g->info.segments = &g->segment;
    g->info.n_segments = g->info.n_records > 0;
    return g->info.n_records ? 0 : err_set(err, ERR_INVALID, "%s has no samples", g->base.path);
}

/* ---- events ---- */

ORDER_BY(by_onset_of_event, struct eeg_annotation, order_f64(x->onset_s, y->onset_s))

/* The names that a file gives to codes, such as "seizure" for 1; NULL: the code has none. */
struct code_names {
    const char *of[BLOCK];
};

/* Strings one after another, that of code 0 first; an empty one is no name. */
static void split_names(struct gdf *g, const uint8_t *text, size_t n, struct code_names *ret) {
    for (size_t code = 0, len; n && code < BLOCK; code++, text += len, n -= len) {
        len = strnlen((const char *)text, n);
        ret->of[code] = len ? keep_text(g, text, len) : NULL;
        len += len < n;
    }
}

/* Of the header behind those of the signals: a tag of one byte, a length of three, and so many bytes. Tag 1 has the names. */
static int read_code_names(struct gdf *g, struct code_names *ret, struct err *err) {
    enum { NAMES = 1, MOST_BYTES = 64 << 10 };
    const size_t at = BLOCK * ((size_t)g->info.n_signals + 1), n = g->head_bytes - at;
    const uint8_t *tags;
    if (n < 4 || n > MOST_BYTES)
        return 0;
    uint8_t *room = arena_alloc(&g->arena, n);
    if (!room)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the events of %s", g->base.path);
    int rc = filebytes_get(&g->bytes, at, n, room, &tags, err);
    for (size_t i = 0, len; !rc && i + 4 <= n && tags[i]; i += 4 + len) {
        len = (size_t)little(tags + i + 1, 3);
        if (len > n - i - 4)
            break;
        if (tags[i] == NAMES)
            split_names(g, tags + i + 4, len, ret);
    }
    return rc;
}

/* Positions (from 1) and codes; with bit 1 of the mode also signals and lengths; times of day by bit 2 come last. */
static int take_events(struct gdf *g, const uint8_t *table, int mode, size_t n, double rate_hz, struct err *err) {
    struct eeg_annotation *events = arena_alloc(&g->arena, (n + 1) * sizeof *events);
    struct code_names names = {0};
    if (!events)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the events of %s", g->base.path);
    int rc = read_code_names(g, &names, err);
    for (size_t i = 0; i < n && !rc; i++) {
        const unsigned code = (unsigned)little(table + 4 * n + 2 * i, 2);
        const char *text = code < BLOCK && names.of[code] ? names.of[code] : arena_printf(&g->arena, "%u", code);
        if (!text)
            return err_set(err, ERR_EXHAUSTED, "out of memory for the events of %s", g->base.path);
        const double length = mode & 2 ? (double)little(table + 8 * n + 4 * i, 4) : 0;
        events[i] =
            (struct eeg_annotation){((double)little(table + 4 * i, 4) - 1) / rate_hz, length > 0 ? length / rate_hz : NAN, text};
    }
    if (rc)
        return rc;
    SORT(events, n, by_onset_of_event);
    g->info.annotations = events;
    g->info.n_annotations = n;
    return 0;
}

/* The table behind the records; none is no error. */
static int read_event_table(struct gdf *g, struct err *err) {
    const size_t at = g->head_bytes + (size_t)g->info.n_records * g->record_bytes;
    uint8_t buffer[8];
    const uint8_t *head;
    if (g->info.n_repairs || at + 8 > g->bytes.len)
        return 0;
    int rc = filebytes_get(&g->bytes, at, 8, buffer, &head, err);
    if (rc)
        return rc;
    const int mode = head[0];
    const bool early = g->version < 1.94;
    const size_t n = (size_t)(early ? little(head + 4, 4) : little(head + 1, 3));
    const size_t bytes = n * ((mode & 2 ? 12 : 6) + (mode & 4 ? 8 : 0));
    double rate_hz = early ? (double)little(head + 1, 3) : f32_at(head + 4);
    if (!(rate_hz > 0)) /* not stated: samples of the fastest signal */
        for (int i = 0; i < g->info.n_signals; i++)
            rate_hz = fmax(rate_hz, g->signals[i].rate_hz);
    if (mode > 7 || mode % 2 == 0)
        return note_repair(
            g, arena_printf(&g->arena, "its table of %zu events has the mode %d, not 1, 3, 5 or 7, and was left out", n, mode),
            err);
    if (n > MOST_EVENTS || at + 8 + bytes > g->bytes.len)
        return err_set(err, ERR_INVALID, "%s: its table of events has %zu events in %zu bytes; copy it again", g->base.path, n,
                       g->bytes.len - at);
    uint8_t *room = arena_alloc(&g->arena, bytes + 1);
    const uint8_t *table;
    if (!room)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the events of %s", g->base.path);
    rc = bytes ? filebytes_get(&g->bytes, at + 8, bytes, room, &table, err) : 0;
    return rc || !n ? rc : take_events(g, table, mode, n, rate_hz, err);
}

/* ---- opening and reading ---- */

static void close_gdf(struct eegfile *file) {
    struct gdf *g = (struct gdf *)file;
    filebytes_close(&g->bytes);
    arena_done(&g->arena);
    free(g);
}

static int fill_gdf(struct gdf *g, struct format_source *source, struct err *err) {
    uint8_t buffer[BLOCK];
    const uint8_t *head;
    g->bytes = source->bytes;
    filebytes_init(&source->bytes, source->bytes.name);
    if (g->bytes.len < BLOCK)
        return err_set(err, ERR_INVALID, "%s has %zu bytes; expected a header of at least %d", g->base.path, g->bytes.len, BLOCK);
    int rc = filebytes_get(&g->bytes, 0, BLOCK, buffer, &head, err);
    if (rc || (rc = take_header(g, head, source->whole, err)) || (rc = count_records(g, source->whole, err)))
        return rc;
    g->base.annotations_known = source->whole == g->bytes.len;
    return g->base.annotations_known ? read_event_table(g, err) : 0;
}

static int open_gdf(struct format_source *source, struct eegfile **ret, struct err *err) {
    struct gdf *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", source->bytes.name);
    arena_init(&g->arena, MOST_MEMORY);
    filebytes_init(&g->bytes, source->bytes.name);
    g->base = (struct eegfile){.format = &format_gdf, .path = source->bytes.name, .info = &g->info};
    int rc = source->growth
                 ? err_set(err, ERR_UNSUPPORTED, "%s: GDF is complete only at its end; wait until it is written", g->base.path)
                 : fill_gdf(g, source, err);
    const char *path = rc ? NULL : arena_strdup(&g->arena, g->base.path);
    if (path) {
        g->base.path = g->bytes.name = path;
        *ret = &g->base;
        return 0;
    }
    close_gdf(&g->base);
    return rc ? rc : err_set(err, ERR_EXHAUSTED, "out of memory opening a file");
}

static void decode_record(const struct gdf *g, int signal, const uint8_t *record, struct eeg_range part, float *out) {
    const struct gdf_layout *l = &g->layouts[signal];
    const struct eeg_signal *s = &g->signals[signal];
    const uint8_t *at = record + l->offset + (size_t)part.first * (size_t)l->bytes;
    for (int64_t i = 0; i < part.n; i++, at += l->bytes)
        out[i] = (float)(sample_at(at, l) * s->gain + s->offset);
}

static int read_gdf(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                    struct err *err) {
    const struct gdf *g = (const struct gdf *)file;
    const int64_t spr = g->signals[signals[0]].samples_per_record, last = (range.first + range.n - 1) / spr;
    const int64_t most = g->record_bytes >= PIECE_BYTES ? 1 : (int64_t)(PIECE_BYTES / g->record_bytes);
    if (range.n <= 0)
        return 0;
    OWNED_MEMORY uint8_t *buffer = malloc((size_t)most * g->record_bytes);
    if (!buffer)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file->path);
    for (int64_t r = range.first / spr, n; r <= last; r += n) {
        const uint8_t *records;
        n = last + 1 - r < most ? last + 1 - r : most;
        const size_t at = g->head_bytes + (size_t)r * g->record_bytes, bytes = (size_t)n * g->record_bytes;
        if (at + bytes > g->bytes.len)
            return err_set(err, ERR_PRECONDITION, "%s: only its first %zu bytes are there", file->path, g->bytes.len);
        int rc = filebytes_get(&g->bytes, at, bytes, buffer, &records, err);
        for (int64_t k = 0; k < n && !rc; k++) {
            const int64_t begin = (r + k) * spr, first = begin > range.first ? begin : range.first,
                          end = begin + spr < range.first + range.n ? begin + spr : range.first + range.n;
            for (int i = 0; i < n_signals; i++)
                decode_record(g, signals[i], records + (size_t)k * g->record_bytes, (struct eeg_range){first - begin, end - first},
                              uv[i] + (first - range.first));
        }
        if (rc)
            return rc;
    }
    return 0;
}

static const char *const gdf_endings[] = {".gdf", NULL};

const struct recording_format format_gdf = {
    .name = "GDF", .endings = gdf_endings, .probe = gdf_probe, .open = open_gdf, .read = read_gdf, .close = close_gdf};
