"""The tools and the prompt that ask the client something before they answer."""

from __future__ import annotations

import hashlib
import hmac
import secrets

import mcp_types as t
from mcp.shared.exceptions import MCPError

from tests.conformance.asking import Question, ask, declares, form, is_modern, outcome, require, sampling, text_of
from tests.conformance.samples import DEFAULTS, ENUMS
from tests.conformance.tools import Context, Fixture, Result, said, strings

_KEY = secrets.token_bytes(32)
NAME = {"type": "string"}


def _seal(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def _open(sealed: str | None) -> str:
    """Return what we said of ourselves in the round before; nothing in the first."""
    state = (sealed or "").partition(".")[0]
    if sealed and not hmac.compare_digest(sealed, _seal(state)):
        raise MCPError(t.INVALID_PARAMS, "The requestState is not one that this server gave")
    return state


def _fields(params: t.CallToolRequestParams, name: str) -> str:
    return str((params.arguments or {}).get(name, ""))


async def _sampling(ctx: Context, params: t.CallToolRequestParams) -> Result:
    require(ctx, "sampling")
    answers = await ask(ctx, params, {"sample": sampling(_fields(params, "prompt"))})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    return said(f"LLM response: {text_of(answers['sample'])}")


async def _elicit(ctx: Context, params: t.CallToolRequestParams, question: t.ElicitRequest, said_of: str) -> Result:
    require(ctx, "elicitation")
    answers = await ask(ctx, params, {"form": question})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    return said(f"{said_of}: {outcome(answers['form'])}")


async def _elicitation(ctx: Context, params: t.CallToolRequestParams) -> Result:
    username = {"type": "string", "description": "User's response"}
    email = {"type": "string", "description": "User's email address"}
    question = form(_fields(params, "message"), username=username, email=email)
    return await _elicit(ctx, params, question, "User response")


async def _defaults(ctx: Context, params: t.CallToolRequestParams) -> Result:
    return await _elicit(ctx, params, form("Please look at the defaults", **DEFAULTS), "Elicitation completed")


async def _enums(ctx: Context, params: t.CallToolRequestParams) -> Result:
    return await _elicit(ctx, params, form("Please choose", **ENUMS), "Elicitation completed")


async def _streaming(ctx: Context, params: t.CallToolRequestParams) -> Result:
    await ctx.session.report_progress(1, 2, "about to ask")
    return await _elicit(ctx, params, form("What is your name?", name=NAME), "Elicitation completed")


async def _missing_capability(ctx: Context, params: t.CallToolRequestParams) -> Result:
    require(ctx, "sampling")
    return said("The client can sample.")


async def _name(ctx: Context, params: t.CallToolRequestParams) -> Result:
    answers = await ask(ctx, params, {"user_name": form("What is your name?", name=NAME)})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    answer = answers["user_name"]
    assert isinstance(answer, t.ElicitResult)
    return said(f"Hello, {(answer.content or {}).get('name')}!")


async def _capital(ctx: Context, params: t.CallToolRequestParams) -> Result:
    answers = await ask(ctx, params, {"capital_question": sampling("What is the capital of France?")})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    return said(text_of(answers["capital_question"]))


async def _roots(ctx: Context, params: t.CallToolRequestParams) -> Result:
    answers = await ask(ctx, params, {"client_roots": t.ListRootsRequest()})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    answer = answers["client_roots"]
    assert isinstance(answer, t.ListRootsResult)
    return said(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


async def _confirm(ctx: Context, params: t.CallToolRequestParams) -> Result:
    state = _open(params.request_state)
    answers = await ask(
        ctx, params, {"confirm": form("Please confirm", ok={"type": "boolean"})}, state=_seal("confirming")
    )
    if isinstance(answers, t.InputRequiredResult):
        return answers
    if is_modern(ctx) and state != "confirming":
        raise MCPError(t.INVALID_PARAMS, "The answer came without the state that belongs to it")
    return said(f"state-ok: {outcome(answers['confirm'])}")


async def _several(ctx: Context, params: t.CallToolRequestParams) -> Result:
    questions: dict[str, Question] = {
        "user_name": form("What is your name?", name=NAME),
        "greeting": sampling("Generate a greeting", tokens=50),
        "client_roots": t.ListRootsRequest(),
    }
    answers = await ask(ctx, params, questions, state=_seal("several"))
    if isinstance(answers, t.InputRequiredResult):
        return answers
    return said(f"{text_of(answers['greeting'])} {outcome(answers['user_name'])}")


async def _rounds(ctx: Context, params: t.CallToolRequestParams) -> Result:
    if _open(params.request_state) != "second":
        name = form("Step 1: What is your name?", name=NAME)
        answers = await ask(ctx, params, {"step1": name}, state=_seal("first"))
        if isinstance(answers, t.InputRequiredResult):
            return answers
    color = form("Step 2: What is your favorite color?", color={"type": "string"})
    answers = await ask(ctx, params, {"step2": color}, state=_seal("second"))
    return answers if isinstance(answers, t.InputRequiredResult) else said(outcome(answers["step2"]))


async def _able(ctx: Context, params: t.CallToolRequestParams) -> Result:
    possible: dict[str, Question] = {
        "elicitation": form("What is your name?", name=NAME),
        "sampling": sampling("Say hello"),
        "roots": t.ListRootsRequest(),
    }
    questions = {name: question for name, question in possible.items() if declares(ctx, name)}
    if not questions:
        return said("This client cannot be asked anything.")
    answers = await ask(ctx, params, questions)
    return answers if isinstance(answers, t.InputRequiredResult) else said(f"Answered: {', '.join(sorted(answers))}")


async def context_prompt(ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
    """Return a prompt about whatever the person wants it to be about."""
    answers = await ask(ctx, params, {"user_context": form("What context should the prompt use?", context=NAME)})
    if isinstance(answers, t.InputRequiredResult):
        return answers
    text = t.TextContent(text=f"Use this context: {outcome(answers['user_context'])}")
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=text)])


ASKING: dict[str, Fixture] = {
    "test_sampling": Fixture(description="Asks a model", run=_sampling, schema=strings("prompt")),
    "test_elicitation": Fixture(description="Asks a person", run=_elicitation, schema=strings("message")),
    "test_elicitation_sep1034_defaults": Fixture(description="Asks with defaults", run=_defaults),
    "test_elicitation_sep1330_enums": Fixture(description="Asks for choices", run=_enums),
    "test_streaming_elicitation": Fixture(description="Tells its progress, then asks", run=_streaming),
    "test_missing_capability": Fixture(description="Serves only clients that sample", run=_missing_capability),
    "test_input_required_result_elicitation": Fixture(description="Asks for a name", run=_name),
    "test_input_required_result_sampling": Fixture(description="Asks a model for a capital", run=_capital),
    "test_input_required_result_list_roots": Fixture(description="Asks for the roots", run=_roots),
    "test_input_required_result_request_state": Fixture(description="Asks, and keeps a state", run=_confirm),
    "test_input_required_result_tampered_state": Fixture(description="Notices a changed state", run=_confirm),
    "test_input_required_result_multiple_inputs": Fixture(description="Asks three things at once", run=_several),
    "test_input_required_result_multi_round": Fixture(description="Asks twice, one after the other", run=_rounds),
    "test_input_required_result_capabilities": Fixture(description="Asks what the client can answer", run=_able),
}
