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
static void (*_Atomic sink_hook)(enum log_level);

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level level, bool json) {
    atomic_store(&sink_level, (int)level);
    atomic_store(&sink_json, json);
}

void log_set_level(enum log_level level) { atomic_store(&sink_level, (int)level); }

void log_hook(void (*hook)(enum log_level level)) { atomic_store(&sink_hook, hook); }

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

void log_write(enum log_level level, const char *message, const char *fields, ...) {
    void (*hook)(enum log_level) = atomic_load(&sink_hook);
    if (hook)
        hook(level);
    if ((int)level < atomic_load(&sink_level))
        return;
    char text[2048] = "";
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
    char stamp[40];
    size_t len = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    str_format(stamp + len, sizeof stamp - len, ".%03ldZ", now.tv_nsec / 1000000);

    struct str line;
    str_init(&line, 4096);
    if (atomic_load(&sink_json)) {
        struct json_writer w;
        json_writer_init(&w, &line);
        json_begin_object(&w, NULL);
        json_put_str(&w, "time", stamp);
        json_put_str(&w, "level", level_names[level]);
        json_put_str(&w, "message", message);
        fields_to_json(&w, text);
        json_end(&w, '}');
    } else {
        str_printf(&line, "time=%s level=%s msg=\"%s\"%s%s", stamp, level_names[level], message, *text ? " " : "", text);
        for (size_t i = 0; i < line.len; i++)
            if (line.data[i] == '\n')
                line.data[i] = ' ';
    }
    str_puts(&line, "\n");
    ssize_t unused = write(STDERR_FILENO, str_cstr(&line), line.len);
    (void)unused; /* nowhere left to report it */
    str_done(&line);
}
