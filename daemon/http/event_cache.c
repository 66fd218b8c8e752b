#include "daemon/http/event_cache.h"

#include "trust/token.h"

/* The text of an event depends on two statuses, known by their numbers, on the page, and on whose streams the reader sees. */
struct key {
    uint64_t before, after; /* before 0: everything is new */
    bool all;
    char path[EVENT_CACHE_PATH], principal[EVENT_CACHE_PATH]; /* principal and names "" where the reader sees all */
    char names[TOKEN_NAMES_SIZE];
};

struct event_cache {
    pthread_mutex_t lock;
    struct entry {
        struct key key;
        struct event_text *text; /* NULL: the entry is free */
    } entries[EVENT_CACHE_TEXTS];
    int next; /* to be replaced */
};

struct event_cache *event_cache_new(void) {
    struct event_cache *c = calloc(1, sizeof *c);
    if (c)
        pthread_mutex_init(&c->lock, NULL);
    return c;
}

void event_text_drop(const struct event_text *text) {
    struct event_text *t = (struct event_text *)text;
    if (!t || atomic_fetch_sub(&t->references, 1) > 1)
        return;
    str_done(&t->text);
    free(t);
}

void event_cache_free(struct event_cache *c) {
    for (int i = 0; c && i < EVENT_CACHE_TEXTS; i++)
        event_text_drop(c->entries[i].text);
    if (c)
        pthread_mutex_destroy(&c->lock);
    free(c);
}

/* False: a name is too long to be told from others, and the text is not to be shared. */
static bool key_of(const struct page_view *before, const struct page_view *after, const char *path, struct key *ret) {
    *ret = (struct key){.before = before ? before->status->number : 0, .after = after->status->number, .all = after->all};
    return str_copy(ret->path, sizeof ret->path, path) &&
           str_copy(ret->principal, sizeof ret->principal, after->all ? "" : after->principal) &&
           str_copy(ret->names, sizeof ret->names, after->all || !after->names ? "" : after->names);
}

static bool is_same(const struct key *a, const struct key *b) {
    return a->before == b->before && a->after == b->after && a->all == b->all && !strcmp(a->path, b->path) &&
           !strcmp(a->principal, b->principal) && !strcmp(a->names, b->names);
}

/* One reference, the caller's. */
static struct event_text *text_of(const struct page_view *before, const struct page_view *after, const char *path) {
    struct event_text *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    atomic_store(&t->references, 1);
    str_init(&t->text, EVENT_CACHE_BYTES);
    page_event(&t->text, before, after, path);
    if (str_ok(&t->text))
        return t;
    event_text_drop(t);
    return NULL;
}

static struct event_text *found_or_made(struct event_cache *c, const struct key *key, const struct page_view *before,
                                        const struct page_view *after) {
    for (int i = 0; i < EVENT_CACHE_TEXTS; i++)
        if (c->entries[i].text && is_same(&c->entries[i].key, key))
            return c->entries[i].text;
    struct event_text *t = text_of(before, after, key->path);
    if (!t)
        return NULL;
    struct entry *oldest = &c->entries[c->next];
    c->next = (c->next + 1) % EVENT_CACHE_TEXTS;
    event_text_drop(oldest->text);
    *oldest = (struct entry){.key = *key, .text = t};
    return t;
}

const struct event_text *event_cache_get(struct event_cache *c, const struct page_view *before, const struct page_view *after,
                                         const char *path) {
    struct key key;
    if (!key_of(before, after, path, &key))
        return text_of(before, after, path);
    LOCKED(&c->lock);
    struct event_text *t = found_or_made(c, &key, before, after);
    if (t)
        atomic_fetch_add(&t->references, 1);
    return t;
}
