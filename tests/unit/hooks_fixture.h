/* A receiver of POSTs, the journal's ears and a hook, for tests of hooks. */
#pragma once

#include "daemon/hooks/hooks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/base.h"
#include "daemon/hooks/owed.h"
#include "daemon/journal/journal.h"
#include "unit/entry_fixture.h"

/* ---- what the journal hears ---- */

enum { MOST = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[MOST][256]; /* "KIND SAMPLE OUTCOME" */
static int n_told;
void __wrap_journal_told(struct journal *j, const char *receiver, const struct journal_entry *e, const char *outcome);
void __wrap_journal_told(struct journal *j, const char *receiver, const struct journal_entry *e, const char *outcome) {
    (void)j, (void)receiver;
    pthread_mutex_lock(&lock);
    assert_true(n_told < MOST);
    str_format(told[n_told++], sizeof told[0], "%s %lld %s", journal_kind_name(e->kind), (long long)e->number, outcome);
    pthread_mutex_unlock(&lock);
}

static int count_told(const char *begin) {
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_told; i++)
        n += str_starts(told[i], begin);
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- a receiver of POSTs ---- */

static struct {
    int listener, port;
    atomic_int status;     /* of its answers */
    atomic_bool hangs;     /* it does not answer about "hung" */
    atomic_int busy, most; /* requests at a time */
    char bodies[MOST][4096];
    atomic_int n;
} receiver;

static void *answer(void *ctx) {
    const int fd = (int)(intptr_t)ctx;
    char request[8192] = "", *body = NULL, text[128];
    size_t have = 0;
    ssize_t got;
    const int busy = atomic_fetch_add(&receiver.busy, 1) + 1;
    if (busy > atomic_load(&receiver.most))
        atomic_store(&receiver.most, busy);
    while ((got = recv(fd, request + have, sizeof request - 1 - have, 0)) > 0) {
        have += (size_t)got;
        request[have] = '\0';
        const char *length = strcasestr(request, "content-length:");
        if ((body = strstr(request, "\r\n\r\n")) && length && strlen(body + 4) >= (size_t)strtol(length + 15, NULL, 10))
            break;
    }
    while (body && atomic_load(&receiver.hangs) && strstr(body, "\"client\":\"hung"))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (body) {
        pthread_mutex_lock(&lock);
        str_copy(receiver.bodies[atomic_load(&receiver.n)], sizeof receiver.bodies[0], body + 4);
        atomic_fetch_add(&receiver.n, 1);
        pthread_mutex_unlock(&lock);
    }
    str_format(text, sizeof text, "HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", atomic_load(&receiver.status));
    atomic_fetch_sub(&receiver.busy, 1);
    (void)!write(fd, text, strlen(text));
    close(fd);
    return NULL;
}

static void *receive(void *ctx) {
    (void)ctx;
    for (int fd; (fd = accept(receiver.listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, answer, (void *)(intptr_t)fd), 0);
        pthread_detach(thread);
    }
    return NULL;
}

static int start_receiver(void **state) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    pthread_t thread;
    (void)state;
    receiver.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(receiver.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(receiver.listener, 64), 0);
    assert_int_equal(getsockname(receiver.listener, (struct sockaddr *)&address, &len), 0);
    receiver.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&thread, NULL, receive, NULL), 0);
    return pthread_detach(thread);
}

/* ---- hooks ---- */

static struct hook hook;
static struct hooks_config config;
static char url[64], secret[512];

static struct hooks *start(void **state, int64_t rejoin_ms) {
    struct hooks *all = NULL;
    str_format(url, sizeof url, "http://127.0.0.1:%d/", receiver.port);
    str_copy(secret, sizeof secret, in_dir(state, "secret"));
    assert_int_equal(fsio_write_atomic(secret, "key\n", 4, NULL), 0);
    assert_int_equal(chmod(secret, 0440), 0); /* as Kubernetes mounts secrets */
    hook = (struct hook){.name = "pager",
                         .url = url,
                         .secret_file = secret,
                         .bed = "*",
                         .model = "*",
                         .kinds = 1u << JOURNAL_ALARM_ON | 1u << JOURNAL_ALARM_OFF,
                         .timeout_ms = 60000};
    config =
        (struct hooks_config){.list = &hook, .n = 1, .rejoin_ms = rejoin_ms, .stale_ms = 720 * 1000, .page = "https://eeg:8443"};
    n_told = 0;
    atomic_store(&receiver.n, 0);
    atomic_store(&receiver.most, 0);
    atomic_store(&receiver.status, 200);
    assert_int_equal(hooks_new(&config, &all, NULL), 0);
    assert_int_equal(hooks_start(all, (struct journal *)&config /* never looked into */, NULL), 0);
    return all;
}

static void stop(struct hooks *all) {
    hooks_stop(all);
    hooks_free(all);
}

/* Offers an entry, on the disk or not. */
static struct journal_line *offer_entry(struct hooks *all, const struct journal_entry *e, int line_state) {
    const struct outlet *outlet = hooks_outlet(all);
    struct journal_line *l = journal_line_new(e);
    atomic_store(&l->state, line_state);
    if (outlet->wants(outlet->ctx, 0, e))
        outlet->offer(outlet->ctx, 0, l);
    return l;
}

static void offer(struct hooks *all, enum journal_kind kind, const char *bed, int64_t sample) {
    struct journal_entry e = entry(kind, bed, sample);
    journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
}

static void wait_for(const atomic_int *n, int want) {
    for (int i = 0; atomic_load(n) < want; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void wait_told(const char *begin, int want) {
    for (int i = 0; count_told(begin) < want; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static bool body_has(int i, const char *text) {
    pthread_mutex_lock(&lock);
    const bool has = strstr(receiver.bodies[i], text) != NULL;
    pthread_mutex_unlock(&lock);
    return has;
}

/* ---- cases ---- */
