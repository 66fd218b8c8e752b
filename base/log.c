#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"

/* The one process-wide sink. */
static atomic_int sink_level = LOG_INFO;
static atomic_bool sink_json;
static log_hook_fn *_Atomic sink_hook;
static void *_Atomic sink_hook_ctx;

/* The longest line has room for message and fields with every byte escaped. */
enum { MESSAGE_MAX = 1024, FIELDS_MAX = 2048, LINE_BYTES = 32 * 1024 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level level, bool json) {
    atomic_store(&sink_level, (int)level);
    atomic_store(&sink_json, json);
}

void log_set_level(enum log_level level) { atomic_store(&sink_level, (int)level); }

void log_hook(log_hook_fn *hook, void *ctx) {
    atomic_store(&sink_hook, NULL);
    atomic_store(&sink_hook_ctx, ctx);
    atomic_store(&sink_hook, hook);
}

const char *log_level_name(enum log_level level) { return level_names[level]; }

bool log_level_parse(const char *text, enum log_level *ret) {
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, level_names[i]))
            continue;
        *ret = (enum log_level)i;
        return true;
    }
    return false;
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
        while (*p && *p != stop)
            p++;
        if (*p)
            *p++ = '\0';
        json_put_str(w, key, value);
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
    for (size_t i = 0; i < line->len; i++) /* one line, and nothing a terminal would obey */
        if ((unsigned char)line->data[i] < 0x20 || line->data[i] == 0x7f)
            line->data[i] = ' ';
}

static void json_line(struct str *line, const char *stamp, enum log_level level, const char *message, char *fields) {
    struct json_writer w;
    json_writer_init(&w, line);
    json_begin_object(&w, NULL);
    json_put_str(&w, "time", stamp);
    json_put_str(&w, "level", level_names[level]);
    json_put_str(&w, "message", message);
    fields_to_json(&w, fields);
    json_end(&w, '}');
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
        vsnprintf(text, sizeof text, fields, ap);
        va_end(ap);
    }
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    str_format(stamp + len, sizeof stamp - len, ".%03ldZ", now.tv_nsec / 1000000);

    struct str line;
    str_init(&line, LINE_BYTES);
    if (atomic_load(&sink_json))
        json_line(&line, stamp, level, what, text);
    else
        text_line(&line, stamp, level, what, text);
    str_puts(&line, "\n");
    ssize_t unused = write(STDERR_FILENO, str_cstr(&line), line.len); /* one write: lines of threads do not mix */
    (void)unused;                                                     /* nowhere left to report it */
    str_done(&line);
}
