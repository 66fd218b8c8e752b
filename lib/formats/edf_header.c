#include "formats/edf_header.h"

#include "formats/civil.h"
#include "formats/rate.h"
#include "formats/tal.h"
#include "formats/unit.h"

enum { FIXED_BYTES = 256, SIGNAL_BYTES = 256, FIELD_MAX = 80 };

/* A column of the header: offset and width in the fixed part, or within the block of all signals (offset per signal). */
struct field {
    int offset, width;
    const char *name;
};
static const struct field FIELD_VERSION = {0, 8, "version"}, FIELD_PATIENT = {8, 80, "patient"},
                          FIELD_RECORDING = {88, 80, "recording"}, FIELD_DATE = {168, 8, "start date"},
                          FIELD_TIME = {176, 8, "start time"}, FIELD_HEADER_BYTES = {184, 8, "header bytes"},
                          FIELD_RESERVED = {192, 44, "reserved"}, FIELD_RECORDS = {236, 8, "number of records"},
                          FIELD_DURATION = {244, 8, "record duration"}, FIELD_SIGNALS = {252, 4, "number of signals"};
static const struct field FIELD_LABEL = {0, 16, "label"}, FIELD_TRANSDUCER = {16, 80, "transducer"}, FIELD_UNIT = {96, 8, "unit"},
                          FIELD_PHYSICAL_MIN = {104, 8, "physical minimum"}, FIELD_PHYSICAL_MAX = {112, 8, "physical maximum"},
                          FIELD_DIGITAL_MIN = {120, 8, "digital minimum"}, FIELD_DIGITAL_MAX = {128, 8, "digital maximum"},
                          FIELD_PREFILTER = {136, 80, "prefiltering"}, FIELD_SAMPLES = {216, 8, "samples per record"};

void edf_header_repair(struct edf_header *header, const char *fmt, ...) {
    int n = header->info.n_repairs;
    if (n >= EDF_MAX_REPAIRS) {
        header->repairs[EDF_MAX_REPAIRS - 1] = "more repairs than can be listed";
        return;
    }
    char text[256];
    STR_ARGUMENTS(text, fmt);
    char *copy = arena_strdup(header->arena, text);
    if (copy) {
        header->repairs[n] = copy;
        header->info.n_repairs = n + 1;
    }
}

/* Trimmed text of a fixed-width field in buf (size ≥ 2 · FIELD_MAX + 1). */
static const char *field_text(char *buf, const uint8_t *at, int width, bool *foreign) {
    tal_text(buf, 3 * FIELD_MAX + 1, at, (size_t)width, foreign);
    return buf;
}

/* A number; decimal commas are read as points. false when it is not one. */
static bool number_f64(const char *text, double *ret) {
    char copy[3 * FIELD_MAX + 1];
    str_copy(copy, sizeof copy, *text == '+' ? text + 1 : text);
    for (char *c = copy; *c; c++)
        if (*c == ',')
            *c = '.';
    return str_to_f64(copy, ret);
}

static bool number_i64(const char *text, int64_t *ret) { return str_to_i64(*text == '+' ? text + 1 : text, ret); }

static int refuse(const struct edf_header *h, struct err *err, const char *field, const char *text, const char *expected) {
    return err_set(err, ERR_INVALID, "%s: header field '%s' holds '%s'; expected %s: the file is damaged or no EDF/BDF", h->name,
                   field, text, expected);
}

/* "9.59375" → 959375/100000 reduced. Exponents are accepted through the binary value. false for negative or unreadable text. */
static bool parse_duration(const char *text, int64_t *ret_num, int64_t *ret_den) {
    double value;
    if (!number_f64(text, &value) || value < 0 || value > 1e8)
        return false;
    int64_t num = 0, den = 1;
    if (strpbrk(text, "eE")) {
        while (fabs(value - round(value)) > 1e-9 * value && den < 1000000000)
            value *= 10, den *= 10;
        num = llround(value);
    } else {
        bool fraction = false;
        for (const char *c = text; *c; c++) {
            if (*c == '.' || *c == ',')
                fraction = true;
            else if (*c >= '0' && *c <= '9' && den < 1000000000) {
                num = num * 10 + (*c - '0');
                den *= fraction ? 10 : 1;
            }
        }
    }
    const int64_t divisor = num ? rate_divisor(num, den) : 1, common = divisor > 0 ? divisor : 1;
    *ret_num = num / common;
    *ret_den = num ? den / common : 1;
    return true;
}

/* Three numbers with any single separator between them. */
static bool parse_triple(const char *text, int out[3]) {
    const char *c = text;
    for (int i = 0; i < 3; i++) {
        int value = 0, digits = 0;
        while (*c == ' ')
            c++;
        for (; *c >= '0' && *c <= '9' && digits < 4; c++, digits++)
            value = value * 10 + (*c - '0');
        if (!digits)
            return false;
        out[i] = value;
        if (i < 2 && *c)
            c++;
    }
    return !*c;
}

/* EDF+ repeats the date with its whole year in the recording field: "Startdate dd-MMM-yyyy". */
static bool stated_year(const char *recording, int day, int month, int *ret) {
    int parts[2];
    if (strncasecmp(recording, "Startdate ", 10) != 0 || strlen(recording) < 21 || recording[12] != '-' || recording[16] != '-')
        return false;
    const int at[2] = {10, 17}, width[2] = {2, 4};
    for (int i = 0; i < 2; i++) {
        parts[i] = 0;
        for (int k = 0; k < width[i]; k++) {
            char c = recording[at[i] + k];
            if (c < '0' || c > '9')
                return false;
            parts[i] = parts[i] * 10 + (c - '0');
        }
    }
    if (!civil_is_date(parts[1], month, day) || parts[0] != day || civil_month(recording + 13) != month || parts[1] < 1800)
        return false;
    *ret = parts[1];
    return true;
}

/* Date and time are advisory: any fault leaves start.known false and a repair. */
static void parse_start(struct edf_header *h, const uint8_t *data) {
    struct eeg_start *start = &h->info.start;
    char text[3 * FIELD_MAX + 1];
    int date[3], clock[3];
    bool triple = parse_triple(field_text(text, data + FIELD_DATE.offset, FIELD_DATE.width, NULL), date) && date[2] <= 99;
    bool date_ok = triple && civil_is_date(date[2] + (date[2] >= 85 ? 1900 : 2000), date[1], date[0]);
    if (!date_ok)
        edf_header_repair(h, "start date '%s' is %s; the start is taken as unknown", text,
                          triple ? "no day of the calendar" : "not dd.mm.yy");
    else if (text[2] != '.' || text[5] != '.')
        edf_header_repair(h, "start date '%s' read as dd.mm.yy", text);
    bool clock_ok = parse_triple(field_text(text, data + FIELD_TIME.offset, FIELD_TIME.width, NULL), clock) && clock[0] <= 23 &&
                    clock[1] <= 59 && clock[2] <= 60;
    if (!clock_ok)
        edf_header_repair(h, "start time '%s' is not hh.mm.ss; the start is taken as unknown", text);
    else if (text[2] != '.' || text[5] != '.')
        edf_header_repair(h, "start time '%s' read as hh.mm.ss", text);
    if (date_ok) {
        start->day = date[0];
        start->month = date[1];
        start->year = date[2] + (date[2] >= 85 ? 1900 : 2000);
    }
    if (clock_ok) {
        start->hour = clock[0];
        start->minute = clock[1];
        start->second = clock[2];
    }
    start->known = date_ok && clock_ok;
    int year = 0;
    const char *recording = h->info.recording;
    if (!strncasecmp(recording, "Startdate X", 11) && start->day == 1 && start->month == 1 && start->year == 1985)
        start->known = false; /* how EDF+ writes an unknown date */
    else if (date_ok && stated_year(recording, start->day, start->month, &year))
        start->year = year;
    else if (date_ok && !strncasecmp(recording, "Startdate ", 10) && strncasecmp(recording + 10, "X", 1) != 0)
        edf_header_repair(h, "the recording field says '%.21s', which is not the start date %02d.%02d.%02d; that one is used",
                          recording, start->day, start->month, start->year % 100);
}

static const char *keep(struct edf_header *h, const char *text) { return *text ? arena_strdup(h->arena, text) : ""; }

/* Calibration of an ordinary signal: gain and offset, or the reason why it cannot be used. */
static int parse_scale(struct edf_header *h, struct eeg_signal *s, const uint8_t *block, int index, struct err *err) {
    static const struct field *const fields[4] = {&FIELD_PHYSICAL_MIN, &FIELD_PHYSICAL_MAX, &FIELD_DIGITAL_MIN, &FIELD_DIGITAL_MAX};
    double *const values[4] = {&s->physical_min, &s->physical_max, &s->digital_min, &s->digital_max};
    char text[3 * FIELD_MAX + 1], where[64];
    bool blank = false;
    for (int i = 0; i < 4; i++) {
        const uint8_t *at = block + (int64_t)fields[i]->offset * h->info.n_signals + (int64_t)index * fields[i]->width;
        field_text(text, at, fields[i]->width, NULL);
        if (!*text) {
            blank = true;
            continue;
        }
        if (!number_f64(text, values[i])) {
            str_format(where, sizeof where, "%s of signal %d", fields[i]->name, index + 1);
            return s->annotation ? 0 : refuse(h, err, where, text, "a number");
        }
        if (strchr(text, ','))
            edf_header_repair(h, "%s of signal %d: decimal comma in '%s'", fields[i]->name, index + 1, text);
    }
    if (s->annotation)
        return 0;
    double digital_span = s->digital_max - s->digital_min, physical_span = s->physical_max - s->physical_min;
    s->note = blank                    ? "unusable: its range fields are blank"
              : !(digital_span > 0)    ? "unusable: digital minimum is not below digital maximum"
              : physical_span == 0     ? "unusable: physical minimum equals physical maximum"
              : !s->samples_per_record ? "unusable: no samples"
              : s->rate_hz == 0        ? "unusable: the record duration is 0, so its rate is unknown"
                                       : "";
    if (*s->note)
        return 0;
    double factor = unit_factor(s->unit, &s->unit_assumed), gain = physical_span / digital_span;
    s->unit_unstated = s->unit_assumed;
    s->volt = factor > 0;
    s->gain = gain * (s->volt ? factor : 1);
    s->offset = (s->physical_min - s->digital_min * gain) * (s->volt ? factor : 1);
    s->usable = isfinite(s->gain) && isfinite(s->offset);
    s->note = !s->usable        ? "unusable: its physical range overflows"
              : !s->volt        ? "unit is no voltage: values are as in the file"
              : s->unit_assumed ? "no unit: values are read as uV"
              : gain < 0        ? "physical range is inverted: applied as written"
                                : "";
    return 0;
}

static int parse_signal(struct edf_header *h, const uint8_t *block, int index, bool *foreign, struct err *err) {
    struct eeg_signal *s = &h->signals[index];
    int64_t n = h->info.n_signals;
    char text[3 * FIELD_MAX + 1], where[64];
    const struct field *const fields[4] = {&FIELD_LABEL, &FIELD_TRANSDUCER, &FIELD_UNIT, &FIELD_PREFILTER};
    const char **const texts[4] = {&s->label, &s->transducer, &s->unit, &s->prefilter};
    s->note = "";
    for (int i = 0; i < 4; i++) {
        *texts[i] =
            keep(h, field_text(text, block + fields[i]->offset * n + (int64_t)index * fields[i]->width, fields[i]->width, foreign));
        if (!*texts[i])
            return err_set(err, ERR_EXHAUSTED, "%s: header too large", h->name);
    }
    s->annotation = !strcasecmp(s->label, "EDF Annotations") || !strcasecmp(s->label, "BDF Annotations");
    field_text(text, block + FIELD_SAMPLES.offset * n + (int64_t)index * FIELD_SAMPLES.width, FIELD_SAMPLES.width, NULL);
    if (!number_i64(text, &s->samples_per_record) || s->samples_per_record < 0) {
        str_format(where, sizeof where, "%s of signal %d", FIELD_SAMPLES.name, index + 1);
        return refuse(h, err, where, text, "a number from 0");
    }
    const struct eeg_info *info = &h->info;
    if (info->duration_num)
        s->rate_hz = (double)s->samples_per_record * (double)info->duration_den / (double)info->duration_num;
    int rc = parse_scale(h, s, block, index, err);
    if (rc)
        return rc;
    h->offset[index] = h->record_bytes;
    h->record_bytes += s->samples_per_record * h->sample_bytes; /* ≤ 9999 · 99999999 · 3 */
    return 0;
}

static int parse_fixed(struct edf_header *h, const uint8_t *data, size_t len, bool *foreign, struct err *err) {
    char text[3 * FIELD_MAX + 1];
    if (len < FIXED_BYTES)
        return err_set(err, ERR_INVALID, "%s has %zu bytes; an EDF or BDF header needs at least 256", h->name, len);
    field_text(text, data + 1, FIELD_VERSION.width - 1, NULL);
    h->info.bdf = data[0] == 0xFF && !strcmp(text, "BIOSEMI");
    if (data[0] == 0x1F && data[1] == 0x8B)
        return err_set(err, ERR_INVALID, "%s is compressed with gzip; decompress it (gunzip), also in a bucket", h->name);
    if (!h->info.bdf && (data[0] != '0' || *text))
        return err_set(err, ERR_INVALID, "%s does not begin like an EDF (\"0\") or BDF (0xFF \"BIOSEMI\") file", h->name);
    h->sample_bytes = h->info.bdf ? 3 : 2;
    h->info.patient = keep(h, field_text(text, data + FIELD_PATIENT.offset, FIELD_PATIENT.width, foreign));
    h->info.recording = keep(h, field_text(text, data + FIELD_RECORDING.offset, FIELD_RECORDING.width, foreign));
    if (!h->info.patient || !h->info.recording)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", h->name);
    field_text(text, data + FIELD_RESERVED.offset, FIELD_RESERVED.width, foreign);
    h->info.plus = !strncasecmp(text, "EDF+", 4) || !strncasecmp(text, "BDF+", 4);
    h->info.discontinuous = h->info.plus && (text[4] == 'D' || text[4] == 'd');
    int64_t signals;
    field_text(text, data + FIELD_SIGNALS.offset, FIELD_SIGNALS.width, NULL);
    if (!number_i64(text, &signals) || signals < 1)
        return refuse(h, err, FIELD_SIGNALS.name, text, "a number from 1");
    h->info.n_signals = (int)signals;
    h->header_bytes = FIXED_BYTES + SIGNAL_BYTES * signals;
    if ((uint64_t)h->header_bytes > len)
        return err_set(err, ERR_INVALID, "%s ends inside its header: %lld signals need %lld bytes, the file has %zu", h->name,
                       (long long)signals, (long long)h->header_bytes, len);
    field_text(text, data + FIELD_DURATION.offset, FIELD_DURATION.width, NULL);
    if (!parse_duration(text, &h->info.duration_num, &h->info.duration_den))
        return refuse(h, err, FIELD_DURATION.name, text, "a number of seconds from 0");
    h->info.record_s = (double)h->info.duration_num / (double)h->info.duration_den;
    field_text(text, data + FIELD_RECORDS.offset, FIELD_RECORDS.width, NULL);
    if (!number_i64(text, &h->declared_records))
        return refuse(h, err, FIELD_RECORDS.name, text, "a number, or -1 for unknown");
    return 0;
}

int64_t edf_header_bytes(const void *data) {
    char text[3 * FIELD_MAX + 1];
    int64_t signals;
    field_text(text, (const uint8_t *)data + FIELD_SIGNALS.offset, FIELD_SIGNALS.width, NULL);
    return number_i64(text, &signals) && signals > 0 ? FIXED_BYTES + SIGNAL_BYTES * signals : -1;
}

int64_t edf_header_padding(const void *data) {
    enum { MOST_PADDING = 64 << 10 };
    char text[3 * FIELD_MAX + 1];
    int64_t stated, own = edf_header_bytes(data);
    field_text(text, (const uint8_t *)data + FIELD_HEADER_BYTES.offset, FIELD_HEADER_BYTES.width, NULL);
    return own > 0 && number_i64(text, &stated) && stated > own && stated - own <= MOST_PADDING ? stated - own : 0;
}

/* The signal with the most samples of a record, or NULL. */
static const struct eeg_signal *fastest_signal(const struct eeg_info *info) {
    const struct eeg_signal *found = NULL;
    for (int i = 0; i < info->n_signals; i++)
        if (!info->signals[i].annotation && (!found || info->signals[i].samples_per_record > found->samples_per_record))
            found = &info->signals[i];
    return found;
}

/* The duration with which the fastest signal has a whole number of Hz, if it has none by the text's number and only one
 * within the text's digits: "0.003333" of one sample is 1/300. Whole seconds are not rounded. */
static bool whole_duration(const struct eeg_info *info, const char *text, struct exact_rate *ret) {
    const struct eeg_signal *fastest = fastest_signal(info);
    struct exact_rate rate;
    if (!fastest || !info->duration_num || info->duration_den == 1 ||
        fastest->samples_per_record * info->duration_den % info->duration_num == 0 ||
        !rate_of_records(text, fastest->samples_per_record, &rate) || rate.den != 1)
        return false;
    const int64_t common = rate_divisor(fastest->samples_per_record, rate.num);
    *ret = (struct exact_rate){fastest->samples_per_record / common, rate.num / common, false};
    return true;
}

/* Durations are often rounded ("0.333333"): one by which the rate is no whole number, though one within its digits is, and
 * one that gives no rate of small terms stand for a fraction. */
static void take_rounded_duration(struct edf_header *h, const uint8_t *data) {
    char text[3 * FIELD_MAX + 1];
    struct eeg_info *info = &h->info;
    struct exact_rate duration;
    bool fits = true;
    for (int i = 0; i < info->n_signals; i++) {
        const int64_t num = h->signals[i].samples_per_record * info->duration_den, common = rate_divisor(num, info->duration_num);
        fits = fits && (h->signals[i].annotation || !common ||
                        (num / common <= RATE_MOST_NUM && info->duration_num / common <= RATE_MOST_DEN));
    }
    field_text(text, data + FIELD_DURATION.offset, FIELD_DURATION.width, NULL);
    const bool whole = whole_duration(info, text, &duration);
    if (!whole && (fits || !rate_of_decimal(text, false, &duration) || duration.approximate))
        return;
    info->duration_num = duration.num;
    info->duration_den = duration.den;
    info->record_s = (double)duration.num / (double)duration.den;
    for (int i = 0; i < info->n_signals; i++)
        h->signals[i].rate_hz = (double)h->signals[i].samples_per_record / info->record_s;
    edf_header_repair(h, "record duration '%s' is taken as %lld/%lld s", text, (long long)duration.num, (long long)duration.den);
}

int edf_header_parse(struct edf_header *h, const uint8_t *data, size_t len, struct err *err) {
    bool foreign = false;
    h->repairs = arena_alloc(h->arena, EDF_MAX_REPAIRS * sizeof *h->repairs);
    if (!h->repairs)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", h->name);
    h->info.repairs = h->repairs;
    int rc = parse_fixed(h, data, len, &foreign, err);
    if (rc)
        return rc;
    h->signals = arena_alloc(h->arena, (size_t)h->info.n_signals * sizeof *h->signals);
    h->offset = arena_alloc(h->arena, (size_t)h->info.n_signals * sizeof *h->offset);
    if (!h->signals || !h->offset)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", h->name);
    h->info.signals = h->signals;
    for (int i = 0; i < h->info.n_signals && !rc; i++)
        rc = parse_signal(h, data + FIXED_BYTES, i, &foreign, err);
    if (rc)
        return rc;
    if (!h->record_bytes)
        return err_set(err, ERR_INVALID, "%s: no signal has samples; nothing can be read", h->name);
    take_rounded_duration(h, data);
    parse_start(h, data);
    char text[3 * FIELD_MAX + 1];
    field_text(text, data + FIELD_HEADER_BYTES.offset, FIELD_HEADER_BYTES.width, NULL);
    if (!number_i64(text, &h->stated_bytes))
        h->stated_bytes = -1;
    if (foreign)
        edf_header_repair(h, "non-ASCII bytes in the header were read as UTF-8 or Latin-1");
    return 0;
}
