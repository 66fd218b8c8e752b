#include "daemon/rpc/audit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/rpc/auth.h"

enum { SETS = 256, WAYS = 4, METHOD_SIZE = 96 };

/* The lines of one key in its present window. */
struct count {
    uint64_t key; /* 0 = free */
    int64_t until_ms;
    int lines;
    long long unsaid;
    char principal[AUTH_NAME_SIZE], method[METHOD_SIZE];
};
struct audit {
    pthread_mutex_t lock;
    struct count counts[SETS][WAYS];
};

struct audit *audit_new(void) {
    struct audit *a = calloc(1, sizeof *a);
    if (a)
        pthread_mutex_init(&a->lock, NULL);
    return a;
}

void audit_free(struct audit *a) {
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* FNV-1a over texts and their ends. */
static uint64_t hash(const char *const texts[3]) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (int i = 0; i < 3; i++)
        for (const char *p = texts[i];; p++) {
            h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
            if (!*p)
                break;
        }
    return h ? h : 1;
}

static void say_unsaid(struct count *c) {
    if (c->unsaid)
        log_info("audit", "principal=%s method=%s outcome=unsaid lines=%lld", c->principal, *c->method ? c->method : "any",
                 c->unsaid);
    c->unsaid = 0;
}

/* The count of the key; it takes the place of the one whose window ends first. */
static struct count *count_of(struct audit *a, const char *const texts[3], int64_t now_ms, int64_t window_ms) {
    const uint64_t key = hash(texts);
    struct count *set = a->counts[key % SETS], *c = &set[0];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key) {
            c = &set[i];
            break;
        }
        c = set[i].until_ms < c->until_ms ? &set[i] : c;
    }
    if (c->key == key && now_ms < c->until_ms)
        return c;
    say_unsaid(c);
    *c = (struct count){.key = key, .until_ms = now_ms + window_ms};
    str_copy(c->principal, sizeof c->principal, texts[0]);
    str_copy(c->method, sizeof c->method, texts[1]);
    return c;
}

bool audit_allows(struct audit *a, const char *principal, const char *method, const char *id, int64_t now_ms) {
    const char *const of_id[] = {principal, method, id ? id : ""}, *const of_method[] = {principal, method, ""},
                      *const of_caller[] = {principal, "", ""};
    pthread_mutex_lock(&a->lock);
    struct count *reading = id ? count_of(a, of_id, now_ms, AUDIT_READING_MS) : NULL;
    const bool again = reading && reading->lines++ > 0;
    struct count *own = again ? NULL : count_of(a, of_method, now_ms, AUDIT_WINDOW_MS);
    const bool fits = own && own->lines < AUDIT_OF_METHOD;
    struct count *all = fits ? count_of(a, of_caller, now_ms, AUDIT_WINDOW_MS) : NULL;
    const bool allowed = all && all->lines < AUDIT_OF_CALLER;
    if (allowed) {
        own->lines++;
        all->lines++;
    } else if (own) {
        own->unsaid++;
    }
    pthread_mutex_unlock(&a->lock);
    return allowed;
}

void audit_tick(struct audit *a, int64_t now_ms) {
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < SETS; i++)
        for (int k = 0; k < WAYS; k++)
            if (a->counts[i][k].unsaid && now_ms >= a->counts[i][k].until_ms)
                say_unsaid(&a->counts[i][k]);
    pthread_mutex_unlock(&a->lock);
}
