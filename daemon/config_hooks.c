#include "daemon/config_hooks.h"

#include "daemon/hooks/hook_format.h"
#include "post/mail.h"

struct hook_raw {
    const char *name, *url, *url_file, *secret_file, *ca, *bed, *model, *from, *user, *password_file;
    struct option_list command, kinds, environment, to;
    bool replays, names, person;
    int format;
    int64_t timeout_ms;
};
#define H(field) offsetof(struct hook_raw, field)
static const struct option rows[] = {
    {"name", OPTION_STRING, H(name), NULL, 0, 0, NULL, "name in logs, metrics and `brrctl hooks test`"},
    {"command", OPTION_STRINGS, H(command), "[]", 0, 0, NULL, "words of a command, the first an absolute path; no shell"},
    {"url", OPTION_STRING, H(url), "null", 0, 0, NULL, "https://… that takes a POST, or smtps://… or smtp://… of a mail server"},
    {"url_file", OPTION_STRING, H(url_file), "null", 0, 0, NULL,
     "file with the url, mode 0600 or 0440: urls of webhooks are secrets"},
    {"format", OPTION_ENUM, H(format), "brrd", 0, 0, HOOK_FORMATS, "of a POST, or email"},
    {"to", OPTION_STRINGS, H(to), "[]", 0, 0, NULL, "of an email: addresses"},
    {"from", OPTION_STRING, H(from), "null", 0, 0, NULL, "of an email: the sender's address"},
    {"user", OPTION_STRING, H(user), "null", 0, 0, NULL, "of an email: the name at the mail server"},
    {"password_file", OPTION_STRING, H(password_file), "null", 0, 0, NULL,
     "of an email: file with the user's password, mode 0600 or 0440"},
    {"names", OPTION_BOOL, H(names), "true", 0, 0, NULL, "names of beds and callers; false: the receiver gets none"},
    {"secret_file", OPTION_STRING, H(secret_file), "null", 0, 0, NULL, "file with the key of the signature, mode 0600 or 0440"},
    {"ca", OPTION_STRING, H(ca), "null", 0, 0, NULL, "PEM file: CAs of the receiver; default those of the system"},
    {"bed", OPTION_STRING, H(bed), "*", 0, 0, NULL, "pattern of clients' names"},
    {"model", OPTION_STRING, H(model), "*", 0, 0, NULL, "pattern of models' names"},
    {"kinds", OPTION_STRINGS, H(kinds), "[alarm_on, alarm_off]", 0, 0, NULL, "kinds of journal entries"},
    {"replays", OPTION_BOOL, H(replays), "false", 0, 0, NULL, "also alarms of recordings that are replayed"},
    {"person", OPTION_BOOL, H(person), "true", 0, 0, NULL,
     "people hear it; false, of a log book or a lamp: when it fails, nobody else is called early"},
    {"environment", OPTION_STRINGS, H(environment), "[]", 0, 0, NULL,
     "names of the daemon's variables that a command gets; besides these it has PATH and BRRD_HOOK only"},
    {"timeout", OPTION_DURATION, H(timeout_ms), "10s", 100, 600 * 1000, NULL, "of one attempt"},
};
static const struct option_table table = OPTION_TABLE(rows);

static int read_kinds(const struct yaml_node *node, const char *file, const struct option_list *kinds, unsigned *ret,
                      struct err *err) {
    for (size_t i = 0; i < kinds->count; i++) {
        enum journal_kind kind;
        if (!journal_kind_find(kinds->items[i], &kind))
            return options_error(node, file, err, "alarms.hooks: '%.40s' is no kind of entry; `brrctl journal --help` lists them",
                                 kinds->items[i]);
        *ret |= 1u << kind;
    }
    return 0;
}

static int check_mail(const struct yaml_node *node, const char *file, const struct hook_raw *raw, struct err *err) {
    if (raw->command.count || (raw->url && !hook_url_is_mail(raw->url)))
        return options_error(node, file, err, "alarms.hooks: %s: url: expected smtps://… or smtp://… of a mail server", raw->name);
    if (raw->secret_file)
        return options_error(node, file, err, "alarms.hooks: %s: a mail has no signature: remove secret_file", raw->name);
    if (!raw->from || !mail_is_address(raw->from) || !raw->to.count)
        return options_error(node, file, err, "alarms.hooks: %s: an email needs `from`, an address, and `to`, a list of them",
                             raw->name);
    for (size_t i = 0; i < raw->to.count; i++)
        if (!mail_is_address(raw->to.items[i]))
            return options_error(node, file, err, "alarms.hooks: %s: to: '%.100s' is no address", raw->name, raw->to.items[i]);
    if (!raw->user != !raw->password_file)
        return options_error(node, file, err, "alarms.hooks: %s: user and password_file belong together", raw->name);
    return 0;
}

static int check(const struct yaml_node *node, const char *file, const struct config *c, const struct hook_raw *raw,
                 struct err *err) {
    if (!*raw->name || strlen(raw->name) >= HOOK_NAME)
        return options_error(node, file, err, "alarms.hooks: name: expected 1 to %d bytes", HOOK_NAME - 1);
    for (int i = 0; i < c->n_hooks; i++)
        if (!strcmp(c->hooks[i].name, raw->name))
            return options_error(node, file, err, "alarms.hooks: the name %s stands twice", raw->name);
    if (!options_is_pattern(raw->bed) || !options_is_pattern(raw->model))
        return options_error(node, file, err, "alarms.hooks: %s: a pattern has a [ without its ]", raw->name);
    const bool posts = raw->url || raw->url_file;
    if (posts == (raw->command.count > 0) || (raw->url && raw->url_file))
        return options_error(node, file, err, "alarms.hooks: %s: expected one of command, url and url_file", raw->name);
    if (raw->command.count && *raw->command.items[0] != '/')
        return options_error(node, file, err, "alarms.hooks: %s: command: '%.100s' is not an absolute path", raw->name,
                             raw->command.items[0]);
    if (raw->format == HOOK_EMAIL)
        return check_mail(node, file, raw, err);
    if (raw->to.count || raw->from || raw->user || raw->password_file)
        return options_error(node, file, err, "alarms.hooks: %s: to, from, user and password_file are keys of format: email",
                             raw->name);
    if (raw->url && !hook_url_is_secure(raw->url))
        return options_error(node, file, err, "alarms.hooks: %s: url: expected https://…, or http:// of this machine", raw->name);
    if (posts && raw->format == HOOK_BRRD && !raw->secret_file)
        return options_error(node, file, err,
                             "alarms.hooks: %s: a url of the format brrd needs secret_file, the key of its signature", raw->name);
    return 0;
}

int config_hook(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err) {
    struct hook_raw raw = {0};
    int rc;
    if (node->type != YAML_MAPPING)
        return options_error(node, file, err, "alarms.hooks: expected a list of {name, command} or {name, url, secret_file}");
    if (c->n_hooks == HOOKS_MAX)
        return options_error(node, file, err, "more than %d hooks", HOOKS_MAX);
    if ((rc = options_read(&table, node, file, arena, &raw, err)) || (rc = check(node, file, c, &raw, err)) ||
        (rc = options_check_patterns(node, file, "alarms.hooks: environment", &raw.environment, err)))
        return rc;
    struct hook *h = &c->hooks[c->n_hooks];
    *h = (struct hook){SAME_MEMBERS(raw, name, url, url_file, format, bed, model, timeout_ms, replays),
                       SAME_MEMBERS(raw, secret_file, ca, from, user, password_file), .hide_names = !raw.names,
                       .machine = !raw.person};
    if ((rc = read_kinds(node, file, &raw.kinds, &h->kinds, err)))
        return rc;
    if (raw.command.count &&
        (!(h->command = option_list_words(arena, &raw.command)) || !(h->environment = option_list_words(arena, &raw.environment))))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    if (raw.to.count && !(h->to = option_list_words(arena, &raw.to)))
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", file);
    c->n_hooks++;
    return 0;
}
