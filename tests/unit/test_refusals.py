"""What git and the servers print when they refuse a push, and what it is taken for."""

import pytest

from interlock.git.refusals import RefusalKind, classify, without_secrets


def line(reason: str, what: str = "remote rejected", ref: str = "refs/heads/main") -> str:
    return f"To https://example.org/app.git\n!\t{'0' * 40}:{ref}\t[{what}] ({reason})\nDone\n"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("cannot lock ref 'refs/heads/main': is at 1 but expected 2", RefusalKind.STALE),
        ("incorrect old value provided", RefusalKind.STALE),
        ("protected branch hook declined", RefusalKind.PERMISSION),
        ("push declined due to repository rule violations", RefusalKind.PERMISSION),
        (
            "refusing to allow an app to update workflow without `workflows` permission",
            RefusalKind.PERMISSION,
        ),
        ("deny updating a hidden ref", RefusalKind.PERMISSION),
        ("branch is currently checked out", RefusalKind.PERMISSION),
        ("shallow update not allowed", RefusalKind.PERMISSION),
        ("pre-receive hook declined", RefusalKind.HOOK),
        ("hook declined", RefusalKind.HOOK),
        ("internal server error", RefusalKind.OTHER),
    ],
)
def test_reasons_of_servers_for_a_ref_are_classified(reason: str, kind: RefusalKind) -> None:
    refusal = classify(line(reason), "error: failed to push some refs to 'x'\n", timed_out=False)
    assert refusal.kind is kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("stale info", RefusalKind.STALE),
        ("fetch first", RefusalKind.NON_FAST_FORWARD),
        ("non-fast-forward", RefusalKind.NON_FAST_FORWARD),
    ],
)
def test_reasons_of_git_itself_for_a_ref_are_classified(reason: str, kind: RefusalKind) -> None:
    refusal = classify(line(reason, "rejected"), "", timed_out=False)
    assert (refusal.kind, refusal.ref) == (kind, "refs/heads/main")


def test_the_ref_at_fault_is_named_and_not_those_that_failed_with_it() -> None:
    out = line("atomic push failed", "rejected") + line("stale info", "rejected", "refs/interlock/fence/x")
    assert classify(out, "", timed_out=False).ref == "refs/interlock/fence/x"


def test_an_atomic_update_that_failed_on_the_server_names_no_ref() -> None:
    err = "remote: error: cannot lock ref 'refs/interlock/fence/x': is at 1 but expected 2\n"
    refusal = classify(line("atomic transaction failed"), err, timed_out=False)
    assert (refusal.kind, refusal.ref) == (RefusalKind.STALE, None)


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("fatal: the receiving end does not support --atomic push", RefusalKind.ATOMIC_UNSUPPORTED),
        (
            "git@host: Permission denied (publickey).\nfatal: Could not read from remote",
            RefusalKind.PERMISSION,
        ),
        (
            "fatal: unable to access 'https://h/': The requested URL returned error: 403",
            RefusalKind.PERMISSION,
        ),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", RefusalKind.PERMISSION),
        ("fatal: unable to access 'https://h/permission/': Could not resolve host: h", RefusalKind.NETWORK),
        ("fatal: unable to access 'https://h/': The requested URL returned error: 502", RefusalKind.NETWORK),
        ("fatal: the remote end hung up unexpectedly", RefusalKind.NETWORK),
        ("ssh: connect to host h port 22: Connection refused", RefusalKind.NETWORK),
        ("tests fail\nerror: failed to push some refs to 'https://h/protected'", RefusalKind.HOOK),
        ("fatal: nobody knows", RefusalKind.OTHER),
        ("", RefusalKind.OTHER),
    ],
)
def test_failures_of_the_whole_push_are_classified(err: str, kind: RefusalKind) -> None:
    assert classify("", err, timed_out=False).kind is kind


def test_the_words_of_a_hook_are_passed_on() -> None:
    here = classify("", "tests fail.\nerror: failed to push some refs to 'x'\n", timed_out=False)
    assert here.detail == "tests fail"
    there = classify(line("pre-receive hook declined"), "remote: \nremote: too large.\n", timed_out=False)
    assert there.detail == "pre-receive hook declined: too large"


def test_a_timeout_is_a_network_refusal() -> None:
    assert classify("", "", timed_out=True).kind is RefusalKind.NETWORK


def test_control_characters_of_a_server_are_removed() -> None:
    refusal = classify(line("pre-receive hook declined"), "remote: \x1b[2Jgone\n", timed_out=False)
    assert refusal.detail == "pre-receive hook declined: ?[2Jgone"


def test_passwords_are_not_repeated() -> None:
    assert (
        without_secrets("fatal: 'https://me:secret@h/x' and ssh://git@h")
        == "fatal: 'https://h/x' and ssh://h"
    )
