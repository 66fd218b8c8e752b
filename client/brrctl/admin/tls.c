/* tls init|renew|token|revoke|client DIR: a laboratory's own certificate authority, certificates and tokens. Runs here, without a
 * daemon. Keys and tokens are made with mode 0600; a token is shown once, and only its SHA-256 is kept. */

#include "base/map.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "trust/certificate.h"
#include "trust/token.h"

/* The options of tls. */
struct tls_options {
    struct argument_list hosts;
    const char *role;
    const char *name;
    const char *until;
    const char *names;
    const char *from;
    const char *overlap;
    bool all, answer, proxy, replace;
};
#define OPTIONS struct tls_options
#define NAMED   TEXT("--name", name, "NAME", "name of the token or client")
static const struct argument host_rows[] = {
    LIST("--host", hosts, "NAME", "name or address of the daemon's machine; may be repeated"),
};
static const struct argument name_rows[] = {NAMED};
static const struct argument token_rows[] = {
    NAMED,
    CHOICE("--role", role, "read|stream|submit|admin", "role of the token; each role includes the ones before it"),
    FLAG("--all", all, "it sees the streams of all callers, not only its own"),
    FLAG("--answer", answer, "its owner answers alarms: acknowledges, silences, marks and notes them"),
    FLAG("--proxy", proxy, "of a proxy before the pages that signs people in and names each of them in X-Forwarded-User"),
    TEXT("--names", names, "NAME,…", "only beds with these names; patterns (* ? [abc]) are allowed"),
    TEXT("--from", from, "FILE",
         "one for each line of FILE, the name of a bed, of which alone it opens streams; prints `NAME TOKEN` lines"),
    TEXT("--until", until, "DATE", "last day (YYYY-MM-DD) on which the token is valid"),
    FLAG("--replace", replace, "another one of the same name, role and words; the present one stays valid for --for"),
    TEXT("--for", overlap, "TIME", "with --replace: how long the present token stays valid, such as 15m; default 1h"),
};

enum {
    PATH_SIZE = 4096,
    TEXT_MAX = 1 << 20,
    LINE_SIZE = 400,
    PUBLIC_MODE = 0644,
    SECRET_MODE = 0600,
    MINUTE_MS = 60000,
    HOUR_MS = 3600000
};

/* ---- files ---- */

/* Begins to write a file that takes the place of one with the same name: with its mode, owner and group, so that whoever reads the
 * old one reads the new one; `mode` where there is none. */
static int stage_text(struct fsio_writer *w, const char *dir, const char *name, const char *text, mode_t mode, struct err *err) {
    char path[PATH_SIZE];
    struct stat st;
    int rc = fsio_join(path, sizeof path, dir, name, err);
    if (rc)
        return rc;
    bool there = !stat(path, &st);
    mode_t before = umask(0077); /* never readable by others, not even while it is written */
    rc = fsio_writer_open(w, path, err);
    umask(before);
    if (rc)
        return rc;
    if (there && fchown(w->fd, st.st_uid, st.st_gid) < 0)
        rc = err_errno(err, errno, "the new %s cannot have the owner and group of the present one; run this as root", path);
    else if (fchmod(w->fd, there ? st.st_mode & 0777 : mode) < 0)
        rc = err_errno(err, errno, "cannot set the mode of %s", path);
    else
        rc = fsio_writer_write(w, text, strlen(text), err);
    if (rc)
        fsio_writer_abort(w);
    return rc;
}

static int put(const char *dir, const char *name, const char *text, mode_t mode, struct err *err) {
    struct fsio_writer w;
    int rc = stage_text(&w, dir, name, text, mode, err);
    return rc ? rc : fsio_writer_commit(&w, err);
}

static int get(const char *dir, const char *name, char **ret, struct err *err) {
    char path[PATH_SIZE];
    size_t len;
    int rc = fsio_join(path, sizeof path, dir, name, err);
    return rc ? rc : fsio_read(path, TEXT_MAX, ret, &len, err);
}

/* Both files are written before either takes its place. */
static int put_pair(const char *dir, const char *name, const struct certificate_pair *pair, struct err *err) {
    char file[TOKEN_NAME_SIZE + 8];
    struct fsio_writer key, certificate;
    str_format(file, sizeof file, "%s.key", name);
    int rc = stage_text(&key, dir, file, pair->key, SECRET_MODE, err);
    if (rc)
        return rc;
    str_format(file, sizeof file, "%s.crt", name);
    if ((rc = stage_text(&certificate, dir, file, pair->certificate, PUBLIC_MODE, err))) {
        fsio_writer_abort(&key);
        return rc;
    }
    if ((rc = fsio_writer_commit(&key, err))) {
        fsio_writer_abort(&certificate);
        return rc;
    }
    return fsio_writer_commit(&certificate, err);
}

/* The CA of the directory, for certificates that it is to issue. */
static int get_authority(const char *dir, struct certificate_pair *ret, struct err *err) {
    struct certificate_pair ca = {0};
    if (get(dir, "ca.crt", &ca.certificate, err) || get(dir, "ca.key", &ca.key, err)) {
        certificate_pair_done(&ca);
        return err_wrap(err,
                        "%s has no certificate authority: put its ca.crt and ca.key back, or `brrctl tls init %s` makes a new one",
                        dir, dir);
    }
    *ret = ca;
    return 0;
}

/* ---- the file of tokens ---- */

static int append_text(int fd, const char *path, const char *line, struct err *err) {
    char last = '\n';
    OWNED(str_done) struct str text = str_of(TEXT_MAX);
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1))
        return err_errno(err, errno, "cannot read %s", path);
    str_printf(&text, "%s%s", last == '\n' ? "" : "\n", line);
    ssize_t n = write(fd, str_cstr(&text), text.len);
    if (n != (ssize_t)text.len || fsync(fd) < 0)
        return err_errno(err, n >= 0 && n < (ssize_t)text.len ? ENOSPC : errno, "cannot write %s", path);
    return 0;
}

/* Adds a line by one write at the end: owner and mode of the file stay, and lines of two callers do not mix. */
static int append_line(const char *dir, const char *line, struct err *err) {
    char path[PATH_SIZE];
    int rc = fsio_join(path, sizeof path, dir, "tokens", err);
    if (rc)
        return rc;
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "%s does not exist; `brrctl tls init %s` makes it", path, dir)
                               : err_errno(err, errno, "cannot open %s", path);
    rc = append_text(fd, path, line, err);
    if (close(fd) < 0 && rc == 0)
        rc = err_errno(err, errno, "cannot write %s", path);
    return rc;
}

/* A new token, and the file's line about it. */
static int make_token(const struct token_request *request, char ret_token[TOKEN_SIZE], char ret_line[LINE_SIZE], struct err *err) {
    char hex[TOKEN_HEX_SIZE];
    int rc;
    if ((rc = token_check_request(request, NULL, err)) || (rc = token_make(ret_token, hex, err)))
        return rc;
    str_format(ret_line, LINE_SIZE, "%s %s %s%s%s%s%s%s%s%s\n", request->role, request->name, hex, request->all ? " all" : "",
               request->answer ? " answer" : "", request->proxy ? " proxy" : "", request->names ? " names=" : "",
               request->names ? request->names : "", request->until ? " until=" : "", request->until ? request->until : "");
    return 0;
}

OWNABLE(struct tokens, tokens_free)

static int read_tokens(const char *dir, char **ret_text, struct tokens **ret, struct err *err) {
    OWNED_MEMORY char *copy = NULL;
    int rc = get(dir, "tokens", ret_text, err);
    if (rc)
        return rc == ERR_NOT_FOUND ? err_set(err, rc, "%s/tokens does not exist; `brrctl tls init %s` makes it", dir, dir) : rc;
    if (!(copy = strdup(*ret_text)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s/tokens", dir);
    return tokens_parse(copy, "tokens", NULL, ret, err);
}

/* A name is the principal whose streams and jobs are whose: it belongs to one valid token. */
static int check_free(const struct tokens *tokens, const char *dir, const char *name, struct err *err) {
    struct token found;
    if (!tokens_named(tokens, name, clock_wall_ms(), &found))
        return 0;
    return err_set(
        err, ERR_EXISTS,
        "%s/tokens has a valid token named '%s', of the role %s; choose another name, revoke it, or make one that takes its "
        "place: brrctl tls token %s --name %s --replace",
        dir, name, role_name(found.role), dir, name);
}

/* The text with the role of every line of this name replaced by `revoked`; gives the number of those lines. */
static int revoke_lines(const char *text, const char *name, struct str *ret) {
    int n = 0;
    while (*text) {
        size_t len = strcspn(text, "\n"), role = strspn(text, " \t"), word = strcspn(text + role, " \t\n");
        size_t at = role + word + strspn(text + role + word, " \t");
        size_t named = at < len ? strcspn(text + at, " \t\n") : 0;
        bool one = text[role] != '#' && named == strlen(name) && !strncmp(text + at, name, named);
        if (one)
            str_puts(ret, "revoked ");
        str_append(ret, text + (one ? at : 0), len - (one ? at : 0));
        str_puts(ret, "\n");
        text += len + (text[len] == '\n');
        n += one;
    }
    return n;
}

/* The text in which every valid line of this name ends at `until` at the latest. */
static void end_lines(const char *text, const char *name, const char *until, struct str *ret) {
    static const char word[] = "until=";
    int64_t end_ms = 0, own_ms;
    (void)token_read_until(until, &end_ms);
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        char role[16] = "", of[TOKEN_NAME_SIZE] = "", value[32] = "";
        len = strcspn(text, "\n");
        sscanf(text, "%15s %63s", role, of);
        const bool one = *role != '#' && strcmp(role, "revoked") != 0 && !strcmp(of, name);
        const char *past = one ? memmem(text, len, word, sizeof word - 1) : NULL;
        const size_t past_len = past ? strcspn(past, " \t\r\n") : 0;
        if (past)
            str_format(value, sizeof value, "%.*s", (int)(past_len - (sizeof word - 1)), past + sizeof word - 1);
        const bool earlier = past && token_read_until(value, &own_ms) && own_ms <= end_ms;
        str_append(ret, text, past && !earlier ? (size_t)(past - text) : len);
        if (one && !earlier)
            str_printf(ret, "%s%s%s", past ? "" : " ", word, until);
        if (past && !earlier)
            str_append(ret, past + past_len, len - (size_t)(past - text) - past_len);
        str_puts(ret, "\n");
    }
}

/* ---- init and renew ---- */

static int refuse_existing(const char *dir, struct err *err) {
    static const char *const files[] = {"ca.crt", "ca.key", "server.crt", "server.key", "tokens", "admin.token"};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int rc = fsio_join(path, sizeof path, dir, files[i], err);
        if (rc)
            return rc;
        if (fsio_exists(path))
            return err_set(err, ERR_EXISTS,
                           "%s exists already; choose another directory, or `brrctl tls renew %s` for a new server certificate",
                           path, dir);
    }
    return 0;
}

struct hosts {
    const char *names[CERTIFICATE_MAX_HOSTS];
    size_t count;
    char own[256];     /* this machine's name */
    struct str former; /* of the certificate that is replaced: a name a line */
};

static void hosts_done(struct hosts *h) { str_done(&h->former); }

/* Takes the hosts of --host; none where the option is not given. */
static void named_hosts(const struct arguments *o, struct hosts *ret) {
    *ret = (struct hosts){.former = str_of(TEXT_MAX)};
    for (int i = 0; i < own(o)->hosts.n && i < CERTIFICATE_MAX_HOSTS; i++)
        ret->names[ret->count++] = own(o)->hosts.items[i];
}

/* Hosts of a first certificate: those of --host, else localhost, 127.0.0.1 and this machine's name. */
static void choose_hosts(const struct arguments *o, struct hosts *ret) {
    named_hosts(o, ret);
    if (ret->count)
        return;
    ret->names[ret->count++] = "localhost";
    ret->names[ret->count++] = "127.0.0.1";
    if (!gethostname(ret->own, sizeof ret->own - 1) && *ret->own && strcmp(ret->own, "localhost"))
        ret->names[ret->count++] = ret->own;
}

/* Hosts of a certificate that replaces another: those of --host, else the hosts of the present certificate, by which
 * clients reach the daemon. */
static int keep_hosts(const struct arguments *o, struct hosts *ret, struct err *err) {
    OWNED_MEMORY char *present = NULL;
    char *rest = NULL;
    named_hosts(o, ret);
    if (ret->count)
        return 0;
    if (get(o->args[1], "server.crt", &present, err) || certificate_hosts(present, &ret->former, err))
        return err_wrap(err, "the hosts of the present certificate are unknown; name them with --host");
    for (char *host = strtok_r(ret->former.data, "\n", &rest); host; host = strtok_r(NULL, "\n", &rest))
        ret->names[ret->count++] = host;
    return 0;
}

static int issue_server(const char *dir, const struct certificate_pair *ca, const struct hosts *hosts, struct err *err) {
    const struct certificate_request request = {
        .name = "brrd", .hosts = hosts->names, .n_hosts = hosts->count, .days = CERTIFICATE_DAYS};
    struct certificate_pair server;
    int rc = certificate_issue(ca, &request, &server, err);
    if (rc)
        return rc;
    rc = put_pair(dir, "server", &server, err);
    certificate_pair_done(&server);
    return rc;
}

static int put_first_token(const char *dir, struct err *err) {
    const struct token_request request = {.role = "admin", .name = "admin"};
    char token[TOKEN_SIZE], line[LINE_SIZE], text[TOKEN_SIZE + 2] = "";
    int rc = make_token(&request, token, line, err);
    if (rc)
        return rc;
    str_format(text, sizeof text, "%s\n", token);
    rc = put(dir, "tokens", line, SECRET_MODE, err);
    rc = rc ? rc : put(dir, "admin.token", text, SECRET_MODE, err);
    explicit_bzero(token, sizeof token);
    explicit_bzero(text, sizeof text);
    return rc;
}

static int init(const char *dir, const struct hosts *hosts, struct err *err) {
    OWNED(certificate_pair_done) struct certificate_pair ca = {0};
    char name[64], machine[48] = "";
    int rc;
    if (gethostname(machine, sizeof machine - 1))
        machine[0] = '\0';
    str_format(name, sizeof name, "brrd CA %s", machine);
    const bool there = fsio_exists(dir);
    if ((rc = refuse_existing(dir, err)) || (rc = certificate_make_authority(name, &ca, err)) || (rc = fsio_mkdirs(dir, err)))
        return rc;
    if (!there &&
        chmod(dir, 0755)) /* whatever the umask: the daemon reads in it, clients read ca.crt, and each secret has its own mode */
        return err_errno(err, errno, "cannot let others read %s", dir);
    if ((rc = issue_server(dir, &ca, hosts, err)) || (rc = put_first_token(dir, err)))
        return rc;
    return put_pair(dir, "ca", &ca, err);
}

static void print_server(const struct arguments *o, const struct hosts *hosts) {
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "directory", o->args[1]);
        JSON_ARRAY(w, "hosts", hosts->names, hosts->count);
        json_put_i64(w, "days", CERTIFICATE_DAYS);
        output_end(w);
        return;
    }
    printf("server.crt, server.key  for");
    for (size_t i = 0; i < hosts->count; i++)
        printf(" %s", hosts->names[i]);
    printf(", valid for %d days\n", CERTIFICATE_DAYS);
}

static void print_next_steps(const char *dir) {
    char full[PATH_SIZE];
    if (fsio_absolute(full, sizeof full, dir, NULL))
        str_copy(full, sizeof full, dir);
    printf("ca.crt                  for clients: --tls-ca\n"
           "ca.key                  signs further certificates: keep it secret\n"
           "tokens                  auth.tokens_file of the daemon; contains digests only\n"
           "admin.token             a token of the role admin, for --token-file\n"
           "\n"
           "daemon.yaml: listen: { tcp: \"0.0.0.0:7443\" }\n"
           "             tls: { cert: %s/server.crt, key: %s/server.key }\n"
           "             auth: { tokens_file: %s/tokens }\n",
           full, full, full);
}

static int run_init(const struct arguments *o, struct err *err) {
    OWNED(hosts_done) struct hosts hosts;
    choose_hosts(o, &hosts);
    int rc = init(o->args[1], &hosts, err);
    if (rc)
        return rc;
    print_server(o, &hosts);
    if (!o->json)
        print_next_steps(o->args[1]);
    return 0;
}

static int run_renew(const struct arguments *o, struct err *err) {
    OWNED(hosts_done) struct hosts hosts;
    OWNED(certificate_pair_done) struct certificate_pair ca = {0};
    int rc = keep_hosts(o, &hosts, err);
    if (rc || (rc = get_authority(o->args[1], &ca, err)) || (rc = issue_server(o->args[1], &ca, &hosts, err)))
        return rc;
    print_server(o, &hosts);
    return 0;
}

/* ---- token, revoke, client ---- */

static struct token_request request_of(const struct arguments *o) {
    return (struct token_request){SAME_MEMBERS(*own(o), role, name, until, names, all, answer, proxy)};
}

/* One bed of --from: its token's line for the file, and what is printed. */
static int add_bed(const struct arguments *o, const char *bed, struct str *lines, struct str *shown, struct err *err) {
    struct token_request request = request_of(o);
    char token[TOKEN_SIZE], line[LINE_SIZE];
    request.name = bed;
    request.names = request.names ? request.names : bed;
    int rc = make_token(&request, token, line, err);
    if (rc)
        return rc;
    str_puts(lines, line);
    if (o->json) {
        struct json_writer w = json_object_to(shown);
        json_put_str(&w, "name", bed);
        json_put_str(&w, "role", own(o)->role);
        json_put_str(&w, "token", token);
        json_end(&w, '}');
        str_puts(shown, "\n");
    } else {
        str_printf(shown, "%s %s\n", bed, token);
    }
    explicit_bzero(token, sizeof token);
    return 0;
}

/* A line of --from; *ret: the name in it, NULL without one. `seen`: those of the lines before. */
static int read_bed(char *line, struct map *seen, const struct tokens *tokens, const char **ret, struct err *err) {
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t");
    for (size_t len = strlen(line); len && strchr(" \t", line[len - 1]); len--)
        line[len - 1] = '\0';
    *ret = *line ? line : NULL;
    if (!*line)
        return 0;
    int rc = token_check_name(line, err);
    if (rc)
        return rc;
    if (map_get(seen, line))
        return err_set(err, ERR_INVALID, "'%s' is there twice", line);
    if (map_put(seen, line, line, NULL))
        return err_set(err, ERR_EXHAUSTED, "more than %d names", TOKENS_MAX);
    struct token found;
    return tokens_named(tokens, line, clock_wall_ms(), &found)
               ? err_set(err, ERR_EXISTS, "'%s' has a valid token already; leave it out, revoke it, or use --name and --replace",
                         line)
               : 0;
}

static int add_beds(const struct arguments *o, char *text, struct str *lines, struct str *shown, struct err *err) {
    OWNED_MEMORY char *present = NULL;
    OWNED_POINTER(tokens_free) struct tokens *tokens = NULL;
    struct map *seen = map_new(TOKENS_MAX);
    int rc = read_tokens(o->args[1], &present, &tokens, err), n = 0, number = 0;
    for (char *line = text, *end; !rc && line; line = end) {
        const char *bed = NULL;
        if ((end = strchr(line, '\n')))
            *end++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        number++;
        if (!(rc = read_bed(line, seen, tokens, &bed, err)) && bed && ++n)
            rc = add_bed(o, bed, lines, shown, err);
        if (rc)
            rc = err_wrap(err, "%s:%d: no token was made", own(o)->from, number);
    }
    map_free(seen, NULL);
    return rc || n ? rc : err_set(err, ERR_INVALID, "%s names no bed; expected one name a line", own(o)->from);
}

/* All beds get their tokens, or none does. */
static int run_tokens(const struct arguments *o, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED(str_done) struct str lines = str_of(TEXT_MAX);
    OWNED(str_done) struct str shown = str_of(TEXT_MAX);
    size_t len;
    int rc = fsio_read(own(o)->from, TEXT_MAX, &text, &len, err);
    if (rc || (rc = add_beds(o, text, &lines, &shown, err)) || (rc = append_line(o->args[1], str_cstr(&lines), err)))
        return rc;
    fputs(str_cstr(&shown), stdout);
    return 0;
}

/* Another token of the same principal, role and words beside its present ones, which end after --for. */
static int add_successor(const struct arguments *o, const struct tokens *tokens, const char *text, char ret_token[TOKEN_SIZE],
                         struct err *err) {
    OWNED(str_done) struct str changed = str_of(2 * TEXT_MAX);
    char line[LINE_SIZE], until[32];
    int64_t for_ms = HOUR_MS;
    struct token t;
    if (!tokens_named(tokens, own(o)->name, clock_wall_ms(), &t))
        return err_set(err, ERR_NOT_FOUND, "%s/tokens has no valid token named '%s'", o->args[1], own(o)->name);
    if (own(o)->overlap && (!str_to_duration_ms(own(o)->overlap, &for_ms) || for_ms < 0))
        return err_set(err, ERR_INVALID, "--for %.40s is no time; expected one such as 15m", own(o)->overlap);
    const struct token_request request = {.role = role_name(t.role),
                                          SAME_MEMBERS(t, name, all, answer),
                                          .until = own(o)->until,
                                          .names = *t.names ? t.names : NULL,
                                          .proxy = t.proxy};
    int rc = make_token(&request, ret_token, line, err);
    if (rc)
        return rc;
    clock_utc(clock_wall_ms() + for_ms + MINUTE_MS - 1, "%Y-%m-%dT%H:%MZ", until, sizeof until);
    end_lines(text, own(o)->name, until, &changed);
    str_puts(&changed, line);
    if (!str_ok(&changed))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s/tokens", o->args[1]);
    return put(o->args[1], "tokens", str_cstr(&changed), SECRET_MODE, err);
}

static int add_token(const struct arguments *o, char ret_token[TOKEN_SIZE], struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED_POINTER(tokens_free) struct tokens *tokens = NULL;
    const struct token_request request = request_of(o);
    char line[LINE_SIZE];
    int rc = read_tokens(o->args[1], &text, &tokens, err);
    if (rc)
        return rc;
    if (own(o)->replace)
        return add_successor(o, tokens, text, ret_token, err);
    if ((rc = check_free(tokens, o->args[1], own(o)->name, err)) || (rc = make_token(&request, ret_token, line, err)))
        return rc;
    return append_line(o->args[1], line, err);
}

static int run_token(const struct arguments *o, struct err *err) {
    if (own(o)->from)
        return run_tokens(o, err);
    char token[TOKEN_SIZE];
    int rc = add_token(o, token, err);
    if (rc)
        return rc;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "name", own(o)->name);
        json_put_str(w, "role", own(o)->role); /* null with --replace */
        json_put_str(w, "token", token);
        output_end(w);
    } else {
        puts(token);
    }
    explicit_bzero(token, sizeof token);
    return 0;
}

/* The file without the tokens of --name; returns their number in *ret. */
static int revoke_tokens(const struct arguments *o, int *ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED(str_done) struct str changed = str_of(2 * TEXT_MAX);
    int rc = get(o->args[1], "tokens", &text, err);
    if (rc)
        return rc;
    if (!(*ret = revoke_lines(text, own(o)->name, &changed)))
        return err_set(err, ERR_NOT_FOUND, "%s/tokens has no token named '%.64s'", o->args[1], own(o)->name);
    if (!str_ok(&changed))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s/tokens", o->args[1]);
    return put(o->args[1], "tokens", str_cstr(&changed), SECRET_MODE, err);
}

static int run_revoke(const struct arguments *o, struct err *err) {
    int n, rc = revoke_tokens(o, &n, err);
    if (rc)
        return rc;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_i64(w, "revoked", n);
        output_end(w);
    } else {
        printf("revoked: %d token%s of %s; a running daemon refuses %s within seconds\n", n, n == 1 ? "" : "s", own(o)->name,
               n == 1 ? "it" : "them");
    }
    return 0;
}

static int make_client(const struct arguments *o, struct err *err) {
    OWNED(certificate_pair_done) struct certificate_pair ca = {0};
    OWNED(certificate_pair_done) struct certificate_pair pair = {0};
    const struct certificate_request request = {.name = own(o)->name, .days = CERTIFICATE_DAYS};
    int rc;
    if ((rc = get_authority(o->args[1], &ca, err)) || (rc = certificate_issue(&ca, &request, &pair, err)))
        return rc;
    return put_pair(o->args[1], own(o)->name, &pair, err);
}

static int run_client(const struct arguments *o, struct err *err) {
    int rc = make_client(o, err);
    if (rc)
        return rc;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "name", own(o)->name);
        json_put_i64(w, "days", CERTIFICATE_DAYS);
        output_end(w);
    } else {
        printf("%s.crt, %s.key: --tls-cert and --tls-key of this client, valid for %d days\n", own(o)->name, own(o)->name,
               CERTIFICATE_DAYS);
    }
    return 0;
}

/* ---- options ---- */

static int need(const char *value, const char *verb, const char *option, struct err *err) {
    return value ? 0 : err_set(err, ERR_INVALID, "tls %s needs %s", verb, option);
}

static int check_none(const struct arguments *o, struct err *err) {
    (void)o, (void)err;
    return 0;
}

static int check_token(const struct arguments *o, struct err *err) {
    struct token_request request = request_of(o);
    int64_t end_ms = 0;
    if (own(o)->from && (own(o)->name || own(o)->replace))
        return err_set(err, ERR_INVALID, "--from and --%s exclude each other", own(o)->name ? "name" : "replace");
    if (own(o)->overlap && !own(o)->replace)
        return err_set(err, ERR_INVALID, "--for is how long the present token stays valid beside one of --replace");
    if (own(o)->replace && (own(o)->role || own(o)->names || own(o)->all || own(o)->answer || own(o)->proxy))
        return err_set(err, ERR_INVALID,
                       "--replace keeps role and words of the present token; for others revoke it, then make one");
    request.role = own(o)->replace ? "read" : request.role;
    request.name = own(o)->from ? "bed" : request.name;
    int rc;
    if ((rc = need(request.role, "token", "--role read|stream|submit|admin", err)) ||
        (rc = need(request.name, "token", "--name NAME, or --from FILE", err)) ||
        (rc = token_check_request(&request, &end_ms, err)))
        return rc;
    if (end_ms && end_ms <= clock_wall_ms())
        return err_set(err, ERR_INVALID, "--until is %s, which is over; expected today (UTC) or a later day", own(o)->until);
    return 0;
}

static int check_revoke(const struct arguments *o, struct err *err) { return need(own(o)->name, "revoke", "--name NAME", err); }

static int check_client(const struct arguments *o, struct err *err) {
    const char *name = own(o)->name;
    int rc;
    if ((rc = need(name, "client", "--name NAME", err)) || (rc = token_check_name(name, err))) /* it names files */
        return rc;
    if (!strcmp(name, "ca") || !strcmp(name, "server") || name[0] == '.')
        return err_set(err, ERR_INVALID, "'%s' cannot be a client's name: %s.key is another file of this directory", name, name);
    return 0;
}

/* Does it if its options are right. */
static int check_and(const struct arguments *o, int (*check)(const struct arguments *o, struct err *err),
                     int (*run)(const struct arguments *o, struct err *err)) {
    struct err err = {0};
    if (!check(o, &err))
        return run(o, &err) ? brrctl_fail(&err) : 0;
    brrctl_fail(&err);
    return EXIT_USAGE;
}

static int tls_init(const struct arguments *o) { return check_and(o, check_none, run_init); }
static int tls_renew(const struct arguments *o) { return check_and(o, check_none, run_renew); }
static int tls_token(const struct arguments *o) { return check_and(o, check_token, run_token); }
static int tls_revoke(const struct arguments *o) { return check_and(o, check_revoke, run_revoke); }
static int tls_client(const struct arguments *o) { return check_and(o, check_client, run_client); }

static const struct command_verb tls_verbs[] = {
    {"init", "DIR", ARGUMENTS(host_rows, .local = true), tls_init, 2},
    {"renew", "DIR", ARGUMENTS(host_rows, .local = true), tls_renew, 2},
    {"token", "DIR", ARGUMENTS(token_rows, .local = true), tls_token, 2},
    {"revoke", "DIR", ARGUMENTS(name_rows, .local = true), tls_revoke, 2},
    {"client", "DIR", ARGUMENTS(name_rows, .local = true), tls_client, 2},
    {.name = NULL},
};

BRRCTL_COMMAND(
    tls, "init|renew|token|revoke|client DIR", &arguments_local, NULL,
    "make your own CA, certificates and tokens; works without a daemon",
    "  init DIR [--host NAME]...    ca.crt ca.key server.crt server.key tokens admin.token; hosts: localhost, 127.0.0.1 and "
    "this\n"
    "                               machine's name, unless given\n"
    "  renew DIR [--host NAME]...   new server.crt and server.key of the same CA, for the hosts of the present\n"
    "                               certificate unless given; owner, group and mode stay; a running daemon reloads them\n"
    "  token DIR --role R --name N  add a token to the file `tokens` and print it once; --until DATE sets its last day;\n"
    "                               --all: it sees the streams of all callers, as a monitoring station needs;\n"
    "                               --from beds.txt: one for each bed, for its name alone; a name has one valid token,\n"
    "                               --name N --replace makes one of the same role and words and ends the old one in --for\n"
    "  revoke DIR --name N          revoke the tokens of this name\n"
    "  client DIR --name N          make N.crt and N.key for --tls-cert and --tls-key, if the daemon has tls.client_ca\n"
    "example: brrctl tls init /etc/brrd/tls --host eeg.lab.example",
    .verbs = tls_verbs);
