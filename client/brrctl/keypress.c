#include "client/brrctl/keypress.h"

#include <poll.h>
#include <signal.h>
#include <termios.h>

static struct termios before;
static volatile sig_atomic_t changed;

void keypress_end(void) {
    if (changed)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    changed = 0;
}

/* Puts the terminal back, then ends as the signal does. */
static void on_signal(int number) {
    keypress_end();
    signal(number, SIG_DFL);
    raise(number);
}

void keypress_begin(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGQUIT};
    struct termios now;
    if (changed || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before))
        return;
    now = before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    changed = 1;
    atexit(keypress_end);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

bool keypress_quits(bool ask) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    bool quits = false;
    while (ask && changed && poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1)
        quits |= key == 'q' || key == 'Q';
    return quits;
}
