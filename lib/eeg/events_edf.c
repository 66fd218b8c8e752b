/* Event files as EDF+: one signal "EDF Annotations" in records of duration 0, as the EDF+ specification describes for annotations
 * without samples (www.edfplus.info, section 2.2). Patient and start are those of the recording. Declared in events.h. */

#include "eeg/events_formats.h"
#include "formats/civil.h"
#include "formats/edf_write.h"
#include "formats/eegfile.h"

enum { FIELD = EDF_WRITE_FIELD, TAL_SIZE = 160, LEAST_RECORD = 128, MOST_RECORD = 4096 };
static const size_t MAX_BODY = (size_t)255 << 20;
static const char *const MONTHS[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};

/* ---- header ---- */

/* Printable ASCII, as EDF+ wants it: other characters, and with `join` blanks too, become '_'. */
static void ascii_copy(char ret[FIELD + 1], const char *text, bool join) {
    size_t n = 0;
    for (; *text && n < FIELD; text++)
        if ((*text & 0xC0) != 0x80) /* one '_' for a character of several bytes */
            ret[n++] = *text > ' ' && *text < 0x7F ? *text : *text == ' ' && !join ? ' ' : '_';
    ret[n] = '\0';
}

/* "X" or the form of dd-MMM-yyyy, ended by a blank. */
static bool has_date_form(const char *text) {
    if (!strncmp(text, "X ", 2))
        return true;
    if (strlen(text) < 12 || text[2] != '-' || text[6] != '-' || text[11] != ' ')
        return false;
    for (int i = 0; i < 11; i++)
        if (i != 2 && i != 6 && (i > 2 && i < 6 ? !isupper((unsigned char)text[i]) : !isdigit((unsigned char)text[i])))
            return false;
    return true;
}

/* A day of the calendar in that form, or X. */
static bool is_date(const char *text) {
    if (!has_date_form(text))
        return false;
    if (*text == 'X')
        return true;
    int day = 10 * (text[0] - '0') + text[1] - '0', year = 0, month = civil_month(text + 3);
    for (int i = 7; i < 11; i++)
        year = 10 * year + (text[i] - '0');
    return civil_is_date(year, month, day);
}

/* "code sex birthdate name", the subfields of EDF+. */
static bool is_plus_patient(const char *text) {
    const char *sex = strchr(text, ' ');
    return sex && sex > text && strchr("XFM", sex[1]) && sex[1] && sex[2] == ' ' && has_date_form(sex + 3) &&
           strchr(sex + 3, ' ')[1] > ' ';
}

/* The patient field of the recording; a field of plain EDF becomes the name. */
static void patient_of(const struct eeg_info *source, char ret[FIELD + 1]) {
    char name[FIELD + 1];
    ascii_copy(ret, source ? source->patient : "", false);
    if (is_plus_patient(ret)) {
        char *birth = strchr(ret, ' ') + 3;
        if (!is_date(birth)) { /* 30-FEB-1951 is unknown; readers refuse such a file */
            *birth = 'X';
            memmove(birth + 1, birth + 11, strlen(birth + 11) + 1);
        }
        return;
    }
    ascii_copy(name, source ? source->patient : "", true);
    str_format(ret, FIELD + 1, "X X X %s", *name ? name : "X");
}

/* When the first sample was, in whole seconds; false when nobody knows. The rest of a second stands in the time-keepers. */
static bool start_of(const struct eeg_info *source, struct tm *ret, double *ret_fraction) {
    *ret = (struct tm){.tm_year = 85, .tm_mday = 1};
    *ret_fraction = 0;
    if (!source || !source->start.known)
        return false;
    const struct eeg_start *at = &source->start;
    struct tm tm = {.tm_year = at->year - 1900,
                    .tm_mon = at->month - 1,
                    .tm_mday = at->day,
                    .tm_hour = at->hour,
                    .tm_min = at->minute,
                    .tm_sec = at->second};
    time_t t = timegm(&tm) + (time_t)floor(at->subsecond);
    *ret_fraction = at->subsecond - floor(at->subsecond);
    return gmtime_r(&t, ret) != NULL;
}

/* What stands behind the date of a field "Startdate dd-MMM-yyyy code technician equipment"; NULL when there are fewer subfields. */
static const char *behind_date(const char *recording) {
    const char *rest = strncmp(recording, "Startdate ", 10) ? NULL : strchr(recording + 10, ' ');
    int blanks = 0;
    for (const char *c = rest; c && *c; c++)
        blanks += *c == ' ' && c[1] > ' ';
    return blanks >= 3 ? rest : NULL;
}

/* The date is always that of the header: readers refuse a file with two different ones. */
static void recording_of(const struct eeg_info *source, const struct tm *tm, bool known, char ret[FIELD + 1]) {
    char text[2 * FIELD + 1];
    const char *rest = known ? behind_date(source->recording) : NULL;
    if (known)
        str_format(text, sizeof text, "Startdate %02d-%s-%04d%s", tm->tm_mday, MONTHS[tm->tm_mon], tm->tm_year + 1900,
                   rest ? rest : " X X X");
    else
        str_copy(text, sizeof text, "Startdate X X X X");
    ascii_copy(ret, text, false);
}

static void put_header(struct str *out, const struct eeg_info *source, size_t n_records, size_t record_bytes) {
    const struct edf_write_signal annotations = edf_write_annotations((int64_t)record_bytes / 2);
    char patient[FIELD + 1], recording[FIELD + 1], date[16], time[16];
    struct tm tm;
    double fraction;
    bool known = start_of(source, &tm, &fraction);
    patient_of(source, patient);
    recording_of(source, &tm, known, recording);
    if (tm.tm_year >= 85 && tm.tm_year < 185)
        str_format(date, sizeof date, "%02d.%02d.%02d", tm.tm_mday, tm.tm_mon + 1, tm.tm_year % 100);
    else /* the year stands in the recording field */
        str_format(date, sizeof date, "%02d.%02d.yy", tm.tm_mday, tm.tm_mon + 1);
    str_format(time, sizeof time, "%02d.%02d.%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
    const struct edf_write_file file = {.patient = patient,
                                        .recording = recording,
                                        .date = date,
                                        .time = time,
                                        .records = (int64_t)n_records,
                                        .signals = &annotations,
                                        .n_signals = 1};
    edf_write_header(out, &file);
}

/* ---- annotations ---- */

static void put_event(struct str *tal, const struct label_run *run, double start_s) {
    char onset[EDF_WRITE_TIME_SIZE], duration[EDF_WRITE_TIME_SIZE];
    double at = start_s + run->onset_s;
    str_clear(tal);
    str_printf(tal, "%s%s\x15%s\x14%s\x14", at < 0 ? "" : "+", edf_write_time(at, onset),
               edf_write_time(run->end_s - run->onset_s, duration), *run->code ? run->code : "sz");
    str_append(tal, "", 1);
}

static void pad(struct str *body, size_t to) {
    static const char zeros[256];
    while (str_ok(body) && body->len < to) {
        size_t n = to - body->len;
        str_append(body, zeros, n < sizeof zeros ? n : sizeof zeros);
    }
}

/* One record if everything fits into it. */
static size_t record_size(const struct label_run *runs, size_t n_runs, double start_s, size_t keeper_bytes, struct str *tal) {
    size_t bytes = keeper_bytes;
    for (size_t i = 0; i < n_runs && bytes <= MOST_RECORD; i++) {
        put_event(tal, &runs[i], start_s);
        bytes += tal->len;
    }
    bytes += bytes & 1;
    return bytes < LEAST_RECORD ? LEAST_RECORD : bytes > MOST_RECORD ? MOST_RECORD : bytes;
}

void events_put_edf(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    OWNED(str_done) struct str body, tal;
    char keeper[EDF_WRITE_KEEPER_SIZE];
    struct tm tm;
    double start_s;
    str_init(&body, MAX_BODY);
    str_init(&tal, TAL_SIZE);
    start_of(header->source, &tm, &start_s);
    size_t keeper_bytes = edf_write_keeper(start_s, keeper);
    size_t record = record_size(runs, n_runs, start_s, keeper_bytes, &tal), n_records = 1;
    str_append(&body, keeper, keeper_bytes);
    for (size_t i = 0; i < n_runs; i++) {
        put_event(&tal, &runs[i], start_s);
        if (body.len + tal.len > n_records * record) {
            pad(&body, n_records++ * record);
            str_append(&body, keeper, keeper_bytes);
        }
        str_append(&body, tal.data, tal.len);
    }
    pad(&body, n_records * record);
    put_header(out, header->source, n_records, record);
    str_append(out, str_cstr(&body), body.len);
    out->overflow |= body.overflow;
}

int events_read_edf(const char *path, struct events_file *events, struct err *err) {
    struct eegfile *edf = NULL;
    int rc = eegfile_open(path, &edf, err);
    if (rc)
        return rc;
    const struct eeg_info *info = eegfile_info(edf);
    eegfile_start_text(edf, events->start_text, sizeof events->start_text);
    if (info->start.known) { /* writers without the recording's header may have put today's date here */
        const struct eeg_start *at = &info->start;
        events->origin_s =
            civil_seconds(&(struct civil){at->year, at->month, at->day, at->hour, at->minute, (double)at->second + at->subsecond});
        events->origin_doubtful = true;
    }
    for (size_t i = 0; i < info->n_annotations && !rc; i++) {
        const struct eeg_annotation *a = &info->annotations[i];
        struct event_row row = {
            .onset_s = a->onset_s, .duration_s = a->duration_s, .end_s = a->onset_s + a->duration_s, .confidence = NAN};
        str_copy(row.type, sizeof row.type, a->text);
        rc = events_add(events, &row, path, err);
    }
    eegfile_close(edf);
    return rc;
}
