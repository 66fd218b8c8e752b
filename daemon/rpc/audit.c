#include "daemon/rpc/audit.h"

#include "base/log.h"
#include "daemon/rpc/auth.h"

enum { SETS = 256, WAYS = 4, METHOD_SIZE = 96 };

/* What one key has left. */
struct count {
    uint64_t key; /* 0 = free */
    double allowance;
    int64_t at_ms; /* of the allowance */
    long long unsaid;
    int64_t said_ms;
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

static void say_unsaid(struct count *c, int64_t now_ms) {
    if (c->unsaid)
        log_info("audit", "principal=%s method=%s outcome=unsaid lines=%lld", c->principal, *c->method ? c->method : "any",
                 c->unsaid);
    c->unsaid = 0;
    c->said_ms = now_ms;
}

/* The count of the key, grown to now; a new one takes the place of the one that was used least recently. most: the allowance. */
static struct count *count_of(struct audit *a, const char *const texts[3], int64_t now_ms, double most, double a_second) {
    const uint64_t key = hash(texts);
    struct count *set = a->counts[key % SETS], *c = &set[0];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key) {
            c = &set[i];
            c->allowance = fmin(most, c->allowance + 1e-3 * a_second * (double)(now_ms - c->at_ms));
            c->at_ms = now_ms;
            return c;
        }
        c = set[i].at_ms < c->at_ms ? &set[i] : c;
    }
    say_unsaid(c, now_ms);
    *c = (struct count){.key = key, .allowance = most, .at_ms = now_ms, .said_ms = now_ms};
    str_copy(c->principal, sizeof c->principal, texts[0]);
    str_copy(c->method, sizeof c->method, texts[1]);
    return c;
}

/* Whether the allowance has a line; takes it. */
static bool take(struct count *c) {
    const bool may = c->allowance >= 1;
    c->allowance -= may;
    return may;
}

bool audit_allows(struct audit *a, const char *principal, const char *method, const char *id, int64_t now_ms) {
    /* An object without an id, such as a page, counts apart from the method's lines. */
    const char *const of_id[] = {principal, method, id && *id ? id : "page"}, *const of_method[] = {principal, method, ""},
                      *const of_caller[] = {principal, "", ""};
    bool allowed = false;
    LOCKED(&a->lock);
    if (!id || take(count_of(a, of_id, now_ms, 1, 1000.0 / AUDIT_READING_MS))) {
        struct count *own = count_of(a, of_method, now_ms, AUDIT_OF_METHOD, AUDIT_METHOD_S);
        allowed = take(own) && take(count_of(a, of_caller, now_ms, AUDIT_OF_CALLER, AUDIT_CALLER_S));
        own->unsaid += !allowed;
    }
    return allowed;
}

void audit_tick(struct audit *a, int64_t now_ms) {
    LOCKED(&a->lock);
    for (int i = 0; i < SETS; i++)
        for (int k = 0; k < WAYS; k++)
            if (a->counts[i][k].unsaid && now_ms - a->counts[i][k].said_ms >= AUDIT_SAY_MS)
                say_unsaid(&a->counts[i][k], now_ms);
}
