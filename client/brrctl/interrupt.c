#include "client/brrctl/interrupt.h"

#include <signal.h>

static volatile sig_atomic_t seen;

static void on_signal(int signum) { seen = signum; }

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static const char *farewell;

static void on_detach(int signum) {
    ssize_t n = write(STDERR_FILENO, farewell, strlen(farewell));
    (void)n;
    _exit(128 + signum);
}

void interrupt_detach(const char *text) {
    struct sigaction action = {.sa_handler = on_detach};
    farewell = text;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_seen(void) { return seen != 0; }
int interrupt_exit(void) { return 128 + (int)seen; }
