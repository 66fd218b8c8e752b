#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"

/* The one process-wide sink. */
static atomic_int sink_level = LOG_INFO;
static atomic_bool sink_json;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sink_lost; /* lines that found no room and were not reported yet */
static log_hook_fn *_Atomic sink_hook;
static void *_Atomic sink_hook_ctx;

/* The longest line has room for message and fields with every byte escaped. */
enum { MESSAGE_MAX = 1024, FIELDS_MAX = 2048, LINE_BYTES = 32 * 1024, LOST_BYTES = 128 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level level, bool json) {
    atomic_store(&sink_level, (int)level);
    atomic_store(&sink_json, json);
}

void log_hook(log_hook_fn *hook, void *ctx) {
    atomic_store(&sink_hook, NULL);
    atomic_store(&sink_hook_ctx, ctx);
    atomic_store(&sink_hook, hook);
}

const char *log_level_name(enum log_level level) { return level_names[level]; }

/* ---- fields ---- */

/* printf with escaped texts: what a %s brings stands in double quotes unless it is one plain word, with \" and \\ for its quotes
 * and backslashes and blanks for control characters, so that no value looks like another field. */
struct fields {
    char *text;
    size_t len, size;
    bool quoted; /* inside quotes of the format */
};

/* The last place is kept for a closing quote. */
static void put_char(struct fields *f, char c) {
    if (f->len + 2 < f->size)
        f->text[f->len++] = c;
    f->text[f->len] = '\0';
}

static bool is_plain(const char *value) {
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p <= 0x20 || strchr("\"\\=", *p) || *p == 0x7f)
            return false;
    return *value != '\0';
}

/* A value that does not fit is cut, and its quotes are closed. */
static void put_value(struct fields *f, const char *value, size_t most) {
    bool own = !f->quoted && !is_plain(value);
    if (own)
        put_char(f, '"');
    for (const char *p = value; *p && most; p++, most--) {
        bool escaped = *p == '"' || *p == '\\', control = (unsigned char)*p < 0x20 || *p == 0x7f;
        if (f->len + 4 + escaped >= f->size)
            break;
        if (escaped)
            put_char(f, '\\');
        put_char(f, control ? ' ' : *p);
    }
    if (own)
        put_char(f, '"');
}

/* A number, by the conversion of its specification. */
static void put_number(struct fields *f, const char *spec, va_list *ap) {
    char out[512] = "", last = spec[strlen(spec) - 1];
    bool is_long = strchr(spec, 'l'), is_longer = strstr(spec, "ll") || strchr(spec, 'j'), is_size = strchr(spec, 'z');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strchr("fFeEgGaA", last))
        snprintf(out, sizeof out, spec, va_arg(*ap, double));
    else if (last == 'p')
        snprintf(out, sizeof out, spec, va_arg(*ap, void *));
    else if (is_longer)
        snprintf(out, sizeof out, spec, va_arg(*ap, long long));
    else if (is_long || is_size)
        snprintf(out, sizeof out, spec, va_arg(*ap, long));
    else
        snprintf(out, sizeof out, spec, va_arg(*ap, int));
#pragma GCC diagnostic pop
    for (const char *p = out; *p; p++)
        put_char(f, *p);
}

static void format_fields(struct fields *f, const char *format, va_list *ap) {
    for (const char *p = format; *p; p++) {
        if (*p != '%') {
            f->quoted ^= *p == '"';
            put_char(f, *p);
            continue;
        }
        char spec[32];
        size_t n = 1 + strspn(p + 1, "-+ #0123456789.*hlzjtL");
        if (p[n] == '%') {
            put_char(f, '%');
        } else if (p[n] == 's') {
            const char *dot = memchr(p, '.', n);
            size_t most = dot && dot[1] != '*' ? strtoul(dot + 1, NULL, 10) : SIZE_MAX;
            if (dot && dot[1] == '*')
                most = (size_t)va_arg(*ap, int);
            const char *value = va_arg(*ap, const char *);
            put_value(f, value ? value : "(null)", most);
        } else if (p[n] && n + 2 <= sizeof spec) {
            str_format(spec, sizeof spec, "%.*s", (int)n + 1, p);
            put_number(f, spec, ap);
        } else {
            break;
        }
        p += n;
    }
    if (f->quoted) { /* the format was cut */
        f->text[f->len++] = '"';
        f->text[f->len] = '\0';
    }
}

/* "a=1 b="two words"" → members of an object. */
static void fields_to_json(struct json_writer *w, char *fields) {
    for (char *p = fields; *p;) {
        while (*p == ' ')
            p++;
        char *key = p;
        while (*p && *p != '=' && *p != ' ')
            p++;
        if (*p != '=')
            return;
        *p++ = '\0';
        char *value = p;
        char stop = ' ';
        if (*p == '"') {
            value = ++p;
            stop = '"';
        }
        char *end = value; /* unescaped in place */
        for (; *p && *p != stop; p++) {
            p += stop == '"' && *p == '\\' && p[1];
            *end++ = *p;
        }
        p += *p != '\0';
        *end = '\0';
        json_put_str(w, key, value);
    }
}

/* One line of valid UTF-8 without characters that a terminal obeys: control characters become spaces, other bytes '?'. */
static void make_plain(char *text) {
    for (char *p = text; *p;) {
        int step = str_utf8_step(p);
        bool c1 = step == 2 && (unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0;
        if (!step)
            *p = '?';
        else if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
        else if (c1)
            p[0] = p[1] = ' ';
        p += step ? step : 1;
    }
}

static void text_line(struct str *line, const char *stamp, enum log_level level, const char *message, const char *fields) {
    str_printf(line, "time=%s level=%s msg=\"", stamp, level_names[level]);
    for (const char *p = message; *p; p++) {
        if (*p == '"' || *p == '\\')
            str_puts(line, "\\");
        str_append(line, p, 1);
    }
    str_printf(line, "\"%s%s", *fields ? " " : "", fields);
    if (line->data)
        make_plain(line->data);
}

static void json_line(struct str *line, const char *stamp, enum log_level level, const char *message, char *fields) {
    struct json_writer w = json_object_to(line);
    json_put_str(&w, "time", stamp);
    json_put_str(&w, "level", level_names[level]);
    json_put_str(&w, "message", message);
    fields_to_json(&w, fields);
    json_end(&w, '}');
}

/* False if the pipe or socket has no room for all of it now; a file always has. */
static bool write_part(const char *text, size_t len) {
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&p, 1, 0) == 0)
        return false;
    ssize_t unused = write(STDERR_FILENO, text, len);
    (void)unused; /* there is nowhere left to report an error */
    return true;
}

/* A pipe that is writable takes PIPE_BUF bytes without waiting. */
static bool write_all(const char *text, size_t len) {
    for (size_t n; len; text += n, len -= n) {
        n = len < PIPE_BUF ? len : PIPE_BUF;
        if (!write_part(text, n))
            return false;
    }
    return true;
}

/* The reader of a pipe or socket may be slow or stopped; no thread of the daemon waits for it. A line that finds no room is
 * counted, and the count is written before the next line. */
static void write_line(const char *text, size_t len) {
    char lost[LOST_BYTES] = "";
    LOCKED(&sink_lock); /* lines of threads do not mix */
    if (sink_lost && atomic_load(&sink_json))
        str_format(lost, sizeof lost, "{\"level\":\"warn\",\"message\":\"log lines lost: nobody read them\",\"lines\":%lu}\n",
                   sink_lost);
    else if (sink_lost)
        str_format(lost, sizeof lost, "level=warn msg=\"log lines lost: nobody read them\" lines=%lu\n", sink_lost);
    if (write_all(lost, strlen(lost))) {
        sink_lost = !write_all(text, len);
    } else {
        sink_lost++;
    }
}

void log_write(enum log_level level, const char *message, const char *fields, ...) {
    log_hook_fn *hook = atomic_load(&sink_hook);
    if (hook)
        hook(atomic_load(&sink_hook_ctx), level);
    if ((int)level < atomic_load(&sink_level))
        return;
    char what[MESSAGE_MAX], text[FIELDS_MAX] = "", stamp[40];
    str_copy(what, sizeof what, message);
    if (fields) {
        va_list ap;
        va_start(ap, fields);
        format_fields(&(struct fields){.text = text, .size = sizeof text}, fields, &ap);
        va_end(ap);
    }
    const int64_t now_ms = clock_wall_ms();
    size_t len = strlen(clock_utc(now_ms, "%Y-%m-%dT%H:%M:%S", stamp, sizeof stamp));
    str_format(stamp + len, sizeof stamp - len, ".%03dZ", (int)(now_ms % 1000));

    OWNED(str_done) struct str line = str_of(LINE_BYTES);
    if (atomic_load(&sink_json))
        json_line(&line, stamp, level, what, text);
    else
        text_line(&line, stamp, level, what, text);
    str_puts(&line, "\n");
    write_line(str_cstr(&line), line.len);
}

static atomic_bool names_hidden;

void log_names(bool written) { atomic_store(&names_hidden, !written); }

const char *log_name(const char *name) { return atomic_load(&names_hidden) ? "-" : name; }
