"""The customer of a script: says what is asked for, and no more."""

import pytest

from rollwright.environments import ScriptedUser
from rollwright.tasks import TaskError, UserScript, read_script

SCRIPT = UserScript(
    wish="I want to pay.",
    facts={"account": "482", "pin": "1234", "target": "375", "amount": "40"},
    first_account="999",
    new_amount="60",
)


def talk(*messages, script=SCRIPT):
    user = ScriptedUser(script=script)
    return [user.answer(message) for message in messages]


def test_facts_are_said_when_they_are_asked_for_and_the_wrong_account_is_corrected_when_asked_again():
    assert talk("What are your account and PIN?", "That is not right. What is your account?") == [
        "My account is 999; the pin is 1234.",
        "Sorry, my account is 482.",
    ]


def test_the_account_of_the_recipient_is_not_taken_for_the_customers_own():
    assert talk("To which account, and how much?") == ["It goes to account 375; the amount is 40."]


def test_the_customer_changes_their_mind_once_when_asked_to_confirm():
    said = talk("40 to 375. Please confirm.", "60 to 375. Is that correct?", "How much was it?")
    assert said == ["No, wait. Make it 60 instead.", "Yes.", "The amount is 60."]


@pytest.mark.parametrize("message", ["Done. The balance is 60.", "Goodbye!", "That is not possible.", "  "])
def test_the_customer_leaves_at_an_outcome_a_farewell_and_at_silence(message):
    assert talk(message) == [None]


def test_a_question_after_a_report_is_answered():
    assert talk("Nothing was sent yet. How much is it?") == ["The amount is 40."]


def test_what_is_not_understood_costs_patience():
    assert talk("hm", "hm", "hm") == ["I do not understand. I want to pay."] * 2 + [None]


def test_a_customer_goes_on_as_kept():
    user = ScriptedUser(script=SCRIPT)
    user.answer("account?")
    user.answer("Please confirm.")
    again = ScriptedUser.restored(SCRIPT, dict(user.content()))
    assert [again.answer("account?"), again.answer("Please confirm.")] == ["Sorry, my account is 482.", "Yes."]
    with pytest.raises(TaskError):
        ScriptedUser.restored(SCRIPT, [])


def test_scripts_read_back_as_they_were_written_and_others_are_refused():
    assert read_script(SCRIPT.json()) == SCRIPT
    for wrong in (None, {}, {"wish": "x", "facts": {"color": "red"}}, {"wish": "x", "facts": {"pin": 3}}):
        with pytest.raises(TaskError):
            read_script(wrong)
