#include "store/fetch.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/queue.h"

enum { CONNECT_TIMEOUT_MS = 10000, POLL_MS = 1000, GET_MIN_BYTES_PER_S = 1000, MAX_EVENTS = 32 };

struct fetch {
    CURLM *multi;
    int epoll_fd, wake_fd; /* sockets of libcurl, and what wakes the engine */
    int64_t due_ms;        /* when libcurl wants to be asked again; -1 = it does not. The engine's */
    pthread_t thread;
    pthread_mutex_t lock; /* everything below, and `done` and `cancelled` of requests */
    pthread_cond_t ended;
    struct fetch_request *incoming;
    struct fetch_request *running;
    uint64_t finished;
    bool closing;
};

static bool in_2xx(const struct fetch_request *r) { return r->status >= 200 && r->status < 300; }

static bool to_file(struct fetch_request *r, const char *data, size_t len) {
    struct fetch_sink *s = &r->sink;
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(s->fd, data + done, len - done, (off_t)(s->offset + (int64_t)(s->got + done)));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r->sink_errno = n < 0 ? errno : EIO;
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
    struct fetch_request *r = ctx;
    struct fetch_sink *s = &r->sink;
    size_t len = size * count;
    if (!in_2xx(r)) {
        size_t room = FETCH_NOTE_MAX - r->note_len, n = len < room ? len : room;
        memcpy(r->note + r->note_len, data, n);
        r->note_len += n;
        return len;
    }
    if (len > s->cap - s->got)
        return 0; /* longer than what was asked for */
    if (s->buf)
        memcpy((char *)s->buf + s->got, data, len);
    else if (!to_file(r, data, len))
        return 0;
    crc_update(s->crc, data, len);
    s->got += len;
    return len;
}

/* The value of header `name` in "Name: value\r\n", copied without blanks; false for another header. */
static bool take(const char *line, size_t len, const char *name, char *buf, size_t size) {
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
        return false;
    line += n + 1;
    len -= n + 1;
    for (; len && (*line == ' ' || *line == '\t'); len--)
        line++;
    while (len && strchr("\r\n\t ", line[len - 1]))
        len--;
    return str_format(buf, size, "%.*s", (int)len, line);
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
    struct fetch_request *r = ctx;
    struct fetch_headers *h = &r->answer;
    size_t len = size * count;
    char value[64];
    if (len > 5 && !strncmp(line, "HTTP/", 5)) { /* also after an interim answer: what came before is void */
        char text[4] = "";
        const char *space = memchr(line, ' ', len);
        int64_t status = 0;
        if (space && line + len - space > 3)
            str_format(text, sizeof text, "%.3s", space + 1);
        r->status = str_to_i64(text, &status) ? (int)status : 0;
        *h = (struct fetch_headers){.content_length = -1, .date_s = -1, .retry_after_s = -1};
    } else if (take(line, len, "content-length", value, sizeof value)) {
        (void)str_to_i64(value, &h->content_length);
    } else if (take(line, len, "retry-after", value, sizeof value)) {
        (void)str_to_i64(value, &h->retry_after_s);
    } else if (take(line, len, "date", value, sizeof value)) {
        h->date_s = (int64_t)curl_getdate(value, NULL);
        h->skew_s = h->date_s - (int64_t)time(NULL);
    } else {
        (void)(take(line, len, "content-range", h->content_range, sizeof h->content_range) ||
               take(line, len, "etag", h->etag, sizeof h->etag) ||
               take(line, len, "last-modified", h->last_modified, sizeof h->last_modified) ||
               take(line, len, "location", h->location, sizeof h->location) ||
               take(line, len, "x-amz-bucket-region", h->region, sizeof h->region) ||
               take(line, len, "x-amz-checksum-sha256", h->checksum_sha256, sizeof h->checksum_sha256) ||
               take(line, len, "x-amz-checksum-crc64nvme", h->checksum_crc[CRC_64_NVME], sizeof *h->checksum_crc) ||
               take(line, len, "x-amz-checksum-crc32c", h->checksum_crc[CRC_32C], sizeof *h->checksum_crc) ||
               take(line, len, "x-amz-checksum-crc32", h->checksum_crc[CRC_32], sizeof *h->checksum_crc) ||
               take(line, len, "x-amz-checksum-type", h->checksum_type, sizeof h->checksum_type) ||
               take(line, len, "x-amz-meta-brrd-sha256", h->meta_sha256, sizeof h->meta_sha256) ||
               take(line, len, "x-amz-meta-md5chksum", h->meta_md5, sizeof h->meta_md5) ||
               take(line, len, "x-amz-server-side-encryption", h->encryption, sizeof h->encryption));
    }
    return len;
}

static size_t on_read(char *buf, size_t size, size_t count, void *ctx) {
    struct fetch_request *r = ctx;
    size_t left = r->body_len - r->body_sent, n = size * count < left ? size * count : left;
    if (n)
        memcpy(buf, (const char *)r->body + r->body_sent, n);
    r->body_sent += n;
    return n;
}

static int on_seek(void *ctx, curl_off_t offset, int origin) {
    struct fetch_request *r = ctx;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > r->body_len)
        return CURL_SEEKFUNC_FAIL;
    r->body_sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static void set_method(CURL *h, struct fetch_request *r) {
    if (!strcmp(r->method, "HEAD")) {
        curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
    } else if (!strcmp(r->method, "PUT")) {
        curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(h, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(h, CURLOPT_READDATA, r);
        curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(h, CURLOPT_SEEKDATA, r);
        curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_len);
    } else if (!strcmp(r->method, "POST")) {
        curl_easy_setopt(h, CURLOPT_POST, 1L);
        curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, r->body ? r->body : "");
    } else if (strcmp(r->method, "GET") != 0) {
        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r->method);
    }
}

/* Hand a request to libcurl; false when there is no memory. Engine thread. */
static bool begin(struct fetch *f, struct fetch_request *r) {
    CURL *h = curl_easy_init();
    struct curl_slist *list = NULL;
    bool ok = h != NULL;
    for (int i = 0; ok && i < r->n_headers; i++) {
        struct curl_slist *longer = curl_slist_append(list, r->headers[i]);
        ok = longer != NULL;
        list = ok ? longer : list;
    }
    if (ok) {
        curl_easy_setopt(h, CURLOPT_URL, r->url);
        curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
        /* a body that only drips holds a connection for ever; the answer to a POST may be blanks while the server works */
        curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, strcmp(r->method, "GET") ? 1L : (long)GET_MIN_BYTES_PER_S);
        curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)r->stall_s);
        curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
        if (r->direct)
            curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
        if (r->ca_file)
            curl_easy_setopt(h, CURLOPT_CAINFO, r->ca_file);
        curl_easy_setopt(h, CURLOPT_HTTPHEADER, list);
        curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(h, CURLOPT_WRITEDATA, r);
        curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(h, CURLOPT_HEADERDATA, r);
        curl_easy_setopt(h, CURLOPT_PRIVATE, r);
        curl_easy_setopt(h, CURLOPT_BUFFERSIZE, 256L * 1024);
        set_method(h, r);
        ok = curl_multi_add_handle(f->multi, h) == CURLM_OK;
    }
    if (!ok) {
        curl_easy_cleanup(h);
        curl_slist_free_all(list);
        return false;
    }
    r->handle = h;
    r->header_list = list;
    return true;
}

static void measure(struct fetch_request *r) {
    curl_off_t took_us = 0, received = 0, sent = 0;
    curl_easy_getinfo(r->handle, CURLINFO_TOTAL_TIME_T, &took_us);
    curl_easy_getinfo(r->handle, CURLINFO_SIZE_DOWNLOAD_T, &received);
    curl_easy_getinfo(r->handle, CURLINFO_SIZE_UPLOAD_T, &sent);
    r->seconds = (double)took_us / 1e6;
    r->received_bytes = received;
    r->sent_bytes = sent;
}

/* The request goes back to its caller. Engine thread. */
static void end(struct fetch *f, struct fetch_request *r, int failure) {
    if (r->handle) {
        measure(r);
        curl_multi_remove_handle(f->multi, r->handle);
        curl_easy_cleanup(r->handle);
        curl_slist_free_all(r->header_list);
    }
    r->handle = r->header_list = NULL;
    r->note[r->note_len] = '\0';
    r->failure = failure;
    str_copy(r->failure_text, sizeof r->failure_text, failure ? curl_easy_strerror((CURLcode)failure) : "");
    LOCKED(&f->lock);
    LIST_REMOVE(f->running, r, next);
    r->done = true;
    f->finished++;
    pthread_cond_broadcast(&f->ended);
}

/* The next request that nobody began yet, or NULL; it counts as running from now on. */
static struct fetch_request *take_incoming(struct fetch *f) {
    LOCKED(&f->lock);
    struct fetch_request *r = f->incoming;
    if (r) {
        f->incoming = r->next;
        r->next = f->running;
        f->running = r;
    }
    return r;
}

static struct fetch_request *find_cancelled(struct fetch *f, bool *ret_closing) {
    LOCKED(&f->lock);
    struct fetch_request *r = f->running;
    while (r && !r->cancelled)
        r = r->next;
    *ret_closing = f->closing && !f->running && !f->incoming;
    return r;
}

/* ---- waiting: only what has something to say is looked at ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known) {
    struct fetch *f = ctx;
    struct epoll_event event = {.data.fd = fd};
    (void)easy;
    if (what != CURL_POLL_OUT)
        event.events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        event.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    if (epoll_ctl(f->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event))
        return -1;
    curl_multi_assign(f->multi, fd, f);
    return 0;
}

static int on_timer(CURLM *multi, long wait_ms, void *ctx) {
    struct fetch *f = ctx;
    (void)multi;
    f->due_ms = wait_ms < 0 ? -1 : clock_ms() + wait_ms;
    return 0;
}

static void wake(struct fetch *f) {
    uint64_t one = 1;
    while (write(f->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Until something happens, and what libcurl makes of it. */
static void turn(struct fetch *f) {
    struct epoll_event events[MAX_EVENTS];
    uint64_t wakes;
    int running = 0;
    int64_t wait_ms = f->due_ms < 0 ? POLL_MS : f->due_ms - clock_ms();
    wait_ms = wait_ms < 0 ? 0 : wait_ms > POLL_MS ? POLL_MS : wait_ms;
    int n = epoll_wait(f->epoll_fd, events, MAX_EVENTS, (int)wait_ms);
    for (int i = 0; i < n; i++) {
        int what = (events[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) | (events[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
        if (events[i].data.fd == f->wake_fd)
            (void)!read(f->wake_fd, &wakes, sizeof wakes);
        else
            curl_multi_socket_action(f->multi, events[i].data.fd, what, &running);
    }
    if (f->due_ms >= 0 && f->due_ms <= clock_ms()) {
        f->due_ms = -1; /* it is told anew if need be */
        curl_multi_socket_action(f->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

static void *engine(void *arg) {
    struct fetch *f = arg;
    for (bool closing = false; !closing;) {
        int left = 0;
        for (struct fetch_request *r; (r = take_incoming(f));)
            if (!begin(f, r))
                end(f, r, CURLE_OUT_OF_MEMORY);
        for (CURLMsg *m; (m = curl_multi_info_read(f->multi, &left));) {
            char *private = NULL;
            if (m->msg != CURLMSG_DONE)
                continue;
            int failure = (int)m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
            end(f, (struct fetch_request *)(void *)private, failure);
        }
        for (struct fetch_request *r; (r = find_cancelled(f, &closing));)
            end(f, r, CURLE_ABORTED_BY_CALLBACK);
        if (!closing)
            turn(f);
    }
    return NULL;
}

static bool open_multi(struct fetch *f, int max_connections) {
    struct epoll_event event = {.events = EPOLLIN};
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->due_ms = -1;
    event.data.fd = f->wake_fd;
    if (f->epoll_fd < 0 || f->wake_fd < 0 || epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->wake_fd, &event) ||
        !(f->multi = curl_multi_init()))
        return false;
    curl_multi_setopt(f->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)max_connections);
    curl_multi_setopt(f->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)max_connections);
    curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, (long)max_connections);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    return true;
}

static void close_multi(struct fetch *f) {
    curl_multi_cleanup(f->multi);
    if (f->epoll_fd >= 0)
        close(f->epoll_fd);
    if (f->wake_fd >= 0)
        close(f->wake_fd);
}

int fetch_open(int max_connections, struct fetch **ret, struct err *err) {
    struct fetch *f = calloc(1, sizeof *f);
    if (!f || curl_global_init(CURL_GLOBAL_DEFAULT)) { /* counted, and safe between threads, from libcurl 7.84 on */
        free(f);
        return err_set(err, ERR_EXHAUSTED, "cannot start libcurl");
    }
    pthread_mutex_init(&f->lock, NULL);
    clock_cond_init(&f->ended);
    if (!open_multi(f, max_connections) || pthread_create(&f->thread, NULL, engine, f)) {
        close_multi(f);
        curl_global_cleanup();
        pthread_cond_destroy(&f->ended);
        pthread_mutex_destroy(&f->lock);
        free(f);
        return err_set(err, ERR_EXHAUSTED, "cannot start the HTTP thread");
    }
    *ret = f;
    return 0;
}

void fetch_close(struct fetch *f) {
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->closing = true;
    pthread_mutex_unlock(&f->lock);
    wake(f);
    pthread_join(f->thread, NULL);
    close_multi(f);
    curl_global_cleanup();
    pthread_cond_destroy(&f->ended);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void fetch_start(struct fetch *f, struct fetch_request *r) {
    r->status = r->failure = r->sink_errno = 0;
    r->failure_text[0] = r->note[0] = '\0';
    r->note_len = r->body_sent = r->sink.got = 0;
    r->seconds = 0;
    r->received_bytes = r->sent_bytes = 0;
    r->answer = (struct fetch_headers){.content_length = -1, .date_s = -1, .retry_after_s = -1};
    r->handle = r->header_list = NULL;
    r->done = r->cancelled = false;
    pthread_mutex_lock(&f->lock);
    LIST_ADD_LAST(f->incoming, r, next);
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

bool fetch_done(struct fetch *f, const struct fetch_request *r) {
    LOCKED(&f->lock);
    return r->done;
}

void fetch_cancel(struct fetch *f, struct fetch_request *r) {
    LOCKED(&f->lock);
    r->cancelled = true;
    wake(f);
    while (!r->done)
        pthread_cond_wait(&f->ended, &f->lock);
}

void fetch_wait(struct fetch *f, uint64_t *seen, int timeout_ms) {
    struct timespec until = clock_after_ms(timeout_ms);
    LOCKED(&f->lock);
    while (f->finished == *seen && pthread_cond_timedwait(&f->ended, &f->lock, &until) != ETIMEDOUT)
        ;
    *seen = f->finished;
}

bool fetch_untrusted(const struct fetch_request *r) {
    return r->failure == CURLE_PEER_FAILED_VERIFICATION || r->failure == CURLE_SSL_CACERT_BADFILE;
}

bool fetch_transient(const struct fetch_request *r) {
    switch (r->failure) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_AGAIN:
        return true;
    default:
        return false;
    }
}
