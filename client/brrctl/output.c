#include "client/brrctl/output.h"

#include "base/trusted_time.h"

#include <protobuf-c/protobuf-c.h>
#include <sys/ioctl.h>

#include "base/needed.h"
#include "proto/json.h"

enum { LINE_MAX_BYTES = 64 << 20, BAR_WIDTH = 30, DEFAULT_COLUMNS = 80, DEFAULT_ROWS = 24 };

/* An open line; json is its first member. */
struct output {
    struct json_writer json;
    struct str text;
};

struct json_writer *output_begin(void) {
    struct output *out = needed(malloc(sizeof *out));
    str_init(&out->text, LINE_MAX_BYTES);
    json_writer_init(&out->json, &out->text);
    json_begin_object(&out->json, NULL);
    return &out->json;
}

void output_end(struct json_writer *w) {
    OWNED_MEMORY struct output *out = (struct output *)w;
    json_end(w, '}');
    puts(str_cstr(&out->text));
    fflush(stdout);
    str_done(&out->text);
}

void output_fields(struct json_writer *w, const ProtobufCMessage *message, const char *fields) {
    if (message_json(w, message, fields))
        return;
    fprintf(stderr, "brrctl: %s has no fields '%s' that can be printed as JSON\n", message->descriptor->name, fields);
    abort();
}

void output_message(const ProtobufCMessage *message, const char *fields) {
    struct json_writer *w = output_begin();
    output_fields(w, message, fields);
    output_end(w);
}

void output_text(const char *name, const char *value) {
    struct json_writer *w = output_begin();
    json_put_str(w, name, value);
    output_end(w);
}

bool output_arrived(void) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return true;
    fprintf(stderr, "brrctl: standard output cannot be written%s%s; the output is incomplete\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return false;
}

bool output_redraws(FILE *out) {
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && (!term || strcmp(term, "dumb") != 0);
}

/* Bytes of the text that fill at most so many columns; a character of several bytes takes one. */
static int fitting(const char *text, int columns) {
    int at = 0;
    for (; text[at]; at++)
        if ((text[at] & 0xC0) != 0x80 && columns-- <= 0)
            break;
    return at;
}

static FILE *progress; /* where a line of progress stands; NULL = nowhere */

void output_progress(FILE *out, const char *line) {
    struct winsize size;
    bool known = !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col > 1;
    fprintf(out, "\r\033[K%.*s", fitting(line, (known ? size.ws_col : DEFAULT_COLUMNS) - 1), line); /* the last column would wrap */
    fflush(out);
    progress = out;
}

void output_picture(FILE *out, const char *lines, const char *foot) {
    struct winsize size;
    bool known = !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col > 1 && size.ws_row > 1;
    int columns = known ? size.ws_col : DEFAULT_COLUMNS, rows = known ? size.ws_row : DEFAULT_ROWS;
    fputs("\033[H\033[2J", out);
    for (; *lines && rows > 1; rows--) {
        char line[1024];
        size_t n = strcspn(lines, "\n");
        str_format(line, sizeof line, "%.*s", (int)n, lines);
        fprintf(out, "%.*s\n", fitting(line, columns - 1), line);
        lines += n + (lines[n] == '\n');
    }
    fprintf(out, "\033[2m%.*s\033[0m", fitting(foot, columns - 1), foot);
    fflush(out);
}

void output_clear(void) {
    if (!progress)
        return;
    fputs("\r\033[K", progress);
    fflush(progress);
    progress = NULL;
}

const char *output_bar(double share, char buf[OUTPUT_BAR_SIZE]) {
    int full = share >= 1 ? BAR_WIDTH : share > 0 ? (int)(share * BAR_WIDTH) : 0;
    buf[0] = '[';
    for (int i = 0; i < BAR_WIDTH; i++)
        buf[1 + i] = i < full ? '#' : '.';
    memcpy(buf + 1 + BAR_WIDTH, "]", 2);
    return buf;
}

const char *output_duration(double seconds, char *buf, size_t size) {
    if (!(seconds >= 0))
        str_copy(buf, size, "?");
    else if (seconds < 60)
        str_format(buf, size, "%d s", (int)seconds);
    else if (seconds < 3600)
        str_format(buf, size, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        str_format(buf, size, "%lld h %02d min", (long long)seconds / 3600, (int)((long long)seconds / 60 % 60));
    return buf;
}

const char *output_clock(double seconds, char *buf, size_t size) {
    long long hundredths = (long long)(seconds * 100 + 0.5);
    str_format(buf, size, "%lld:%02lld:%02lld.%02lld", hundredths / 360000, hundredths / 6000 % 60, hundredths / 100 % 60,
               hundredths % 100);
    return buf;
}

const char *output_figure(double value, char *buf, size_t size) {
    bool whole = value == floor(value) || fabs(value) >= 1000;
    if (isnan(value))
        str_copy(buf, size, "?");
    else
        str_format(buf, size, whole && fabs(value) < 1e15 ? "%.0f" : "%.4g", value);
    return buf;
}

const char *output_probability(double p, char buf[16]) {
    if (isfinite(p))
        str_format(buf, 16, "%.3f", p);
    else
        str_copy(buf, 16, "-");
    return buf;
}

const char *output_alarm_reason(const char *reason) {
    static const char *const words[][2] = {{"ended", ", over"},
                                           {"gap", ", monitoring stopped: samples are missing"},
                                           {"electrodes", ", monitoring stopped: electrodes came off"},
                                           {"closed", ", monitoring stopped: the recording or the stream ended"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(reason, words[i][0]))
            return words[i][1];
    return *reason ? ", monitoring stopped" : "";
}

const char *output_bytes(double bytes, char *buf, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    str_format(buf, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

const char *output_names(char *const *names, size_t n, const char *none, char *buf, size_t size) {
    OWNED(str_done) struct str text = str_of(size - 1);
    for (size_t i = 0; i < n; i++)
        str_printf(&text, "%s%s", i ? ", " : "", names[i]);
    str_copy(buf, size, n ? str_cstr(&text) : none);
    return buf;
}

const char *output_time(int64_t time_ms, char *buf, size_t size) {
    static bool told;
    if (!told && !clock_zone_known())
        fprintf(stderr, "brrctl: note: TZ is '%.100s', which is no time zone of this machine; times are shown in UTC\n",
                getenv("TZ"));
    told = true;
    if (time_ms <= 0 || !*local_time(time_ms, LOCAL_TIME, buf, size))
        str_copy(buf, size, "-");
    return buf;
}

/* ASCII's control characters, and those of ISO 8859-1 (U+0080 to U+009F) in UTF-8. */
void output_clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        const int is_line = *p == '\n' || *p == '\t' || (*p == '\r' && p[1] == '\n');
        if ((*p < 0x20 && !is_line) || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
            p[0] = p[1] = '?';
    }
}

void output_clean_message(ProtobufCMessage *m) {
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        char *at = (char *)m + f->offset;
        size_t n = 1;
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            memcpy(&n, (char *)m + f->quantifier_offset, sizeof n);
        else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)((char *)m + f->quantifier_offset) != f->id)
            continue;
        if ((f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE) || !n)
            continue;
        void **items = f->label == PROTOBUF_C_LABEL_REPEATED ? *(void ***)at : (void **)at;
        for (size_t k = 0; k < n; k++) {
            if (!items[k] || items[k] == f->default_value)
                continue;
            if (f->type == PROTOBUF_C_TYPE_MESSAGE)
                output_clean_message(items[k]);
            else if (*(const char *)items[k])
                output_clean(items[k]);
        }
    }
}
