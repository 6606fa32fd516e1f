"""LiteLLM: a routing strategy that lets a learner, or the service, choose which model answers a prompt."""

import asyncio
import functools
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sparing.errors import DecisionError, SettingError, require
from sparing.online.decision import Decision
from sparing.online.learner import Learner
from sparing.validation import number

if TYPE_CHECKING:
    from sparing.service.client import Client
    from sparing.service.messages import DecideAnswer

MOST_KEPT = 100_000
"""Decisions that wait for a reward, at most; the oldest ones are dropped first."""

Messages = Sequence[Mapping[str, Any]]
ContextOf = Callable[[Messages], Mapping[str, Any]]

log = logging.getLogger(__name__)

_INSTALLED: "weakref.WeakSet[RoutingStrategy]" = weakref.WeakSet()


def last_prompt(messages: Messages) -> dict[str, Any]:
    """Return the last message of the user as the column `prompt`.

    Parameters
    ----------
    messages : sequence of mappings
        Chat messages with `role` and `content`; of a content in parts, the texts are joined.
    """
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content") or ""
            parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            return {"prompt": "\n".join(part for part in parts if part)}
    return {"prompt": ""}


class RoutingStrategy:
    """Chooses among the deployments of a model group; threads and coroutines may share it.

    The actions are LiteLLM's model names, such as ``openai/gpt-4o-mini``, or the names that `labels` gives them. Deployments that
    cool down after failures are not eligible. If the service does not answer in time, LiteLLM's own strategy chooses.

    Parameters
    ----------
    decider : Learner or Client
        A learner, or a client of the service, whose actions are the group's models.
    dollars_per_reward : float, optional
        What a reward of 1 is worth, in US dollars. Prices of LiteLLM, divided by it, are the known costs of a round. Without it,
        costs are those that the learner or the experiment has.
    output_tokens : float or mapping
        Expected number of tokens of an answer, for its price; also by action.
    context : callable
        Makes the raw columns of a context from the chat messages.
    labels : mapping, optional
        Action labels by LiteLLM's model name, where they differ.

    Examples
    --------
    >>> strategy = RoutingStrategy(learner, dollars_per_reward=0.33)
    >>> strategy.install(router, "auto")
    >>> response = router.completion(model="auto", messages=[{"role": "user", "content": "Hello"}])
    >>> if strategy.decision(response).needs_reward:
    ...     strategy.reward(response, judge(response))
    """

    def __init__(
        self,
        decider: "Learner | Client",
        *,
        dollars_per_reward: float | None = None,
        output_tokens: float | Mapping[str, float] = 500,
        context: ContextOf = last_prompt,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.litellm: Any = require("litellm", extra="litellm", purpose="routing with LiteLLM")
        if dollars_per_reward is not None and not number("dollars_per_reward", dollars_per_reward) > 0:
            raise SettingError(
                f"dollars_per_reward={dollars_per_reward}; must be above 0: what a reward of 1 is worth"
            )
        lengths = output_tokens if isinstance(output_tokens, Mapping) else {"output_tokens": output_tokens}
        for name, length in lengths.items():
            number(name, length, least=0)
        self.decider, self.dollars_per_reward, self.output_tokens = decider, dollars_per_reward, output_tokens
        self.context, self.labels = context, dict(labels or {})
        self._decisions: OrderedDict[str, Decision | DecideAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def install(self, router: Any, group: str) -> None:
        """Let this strategy choose among the deployments of one model group; other groups keep the router's strategy.

        Parameters
        ----------
        router : litellm.Router
            The router to change.
        group : str
            The `model_name` that the deployments to choose from have in common.

        Raises
        ------
        SettingError
            If a model of the group is no action, or has no known price although `dollars_per_reward` is given.
        """
        deployments = router.get_model_list(model_name=group) or []
        if not deployments:
            raise SettingError(f"group {group!r} has no deployment; give each model_name={group!r}")
        self._check(deployments)
        installed = _Installed(self, router, group)
        router.set_custom_routing_strategy(installed)
        _INSTALLED.add(self)
        if (failures := _failure_callback()) not in self.litellm.callbacks:
            self.litellm.callbacks.append(failures)

    def decision(self, response: Any) -> "Decision | DecideAnswer | None":
        """Return the decision that chose the model of a response.

        Parameters
        ----------
        response : litellm.ModelResponse or str
            The response, or its `litellm_call_id`.

        Returns
        -------
        Decision, DecideAnswer or None
            None if LiteLLM's own strategy chose, or if the decision is no longer kept.
        """
        with self._lock:
            return self._decisions.get(_call_id(response))

    def reward(self, response: Any, value: float) -> None:
        """Learn the reward of a response, before its price; at any time after the response.

        Parameters
        ----------
        response : litellm.ModelResponse or str
            The response, or its `litellm_call_id`.
        value : float
            The judged reward.

        Raises
        ------
        DecisionError
            If no decision of this response waits for a reward, or the reward is invalid.
        """
        call = _call_id(response)
        made: Any
        with self._lock:
            made = self._decisions.get(call)
        if made is None:
            raise DecisionError(
                f"no decision of this strategy waits for the reward of call {call!r}: another strategy chose its model, it failed, or its "
                "reward is known already"
            )
        decider: Any = self.decider
        if isinstance(decider, Learner):
            decider.update(made, value)
        else:
            decider.reward(made, value)
        with self._lock:
            self._decisions.pop(call, None)

    def forget(self, response: Any) -> None:
        """Drop the decision of a response or call whose reward will not arrive.

        Parameters
        ----------
        response : litellm.ModelResponse or str
            The response, or its `litellm_call_id`.
        """
        with self._lock:
            made = self._decisions.pop(_call_id(response), None)
        self._close(made)

    def costs(self, deployments: Sequence[Mapping[str, Any]], messages: Messages) -> dict[str, float] | None:
        """Return the known cost of an answer by each action, in units of the reward; None without `dollars_per_reward`.

        Parameters
        ----------
        deployments : sequence of mappings
            Deployments of the router.
        messages : sequence of mappings
            The prompt, whose tokens are counted.
        """
        if self.dollars_per_reward is None:
            return None
        tokens = self.litellm.token_counter(model="", messages=list(messages))
        found: dict[str, float] = {}
        for deployment in deployments:
            label, (read, written) = self.label(deployment), self._prices(deployment)
            cost = (tokens * read + self._length(label) * written) / self.dollars_per_reward
            found[label] = min(cost, found.get(label, cost))
        return found

    def label(self, deployment: Mapping[str, Any]) -> str:
        """Return the action label of a deployment.

        Parameters
        ----------
        deployment : mapping
            A deployment of the router.
        """
        model: str = deployment["litellm_params"]["model"]
        return self.labels.get(model, model)

    def models(self, label: str) -> list[str]:
        """Return the LiteLLM model names that an action may have.

        Parameters
        ----------
        label : str
            The action's label.
        """
        return [label, *(model for model, known in self.labels.items() if known == label)]

    def choose(self, deployments: Sequence[Mapping[str, Any]], messages: Messages, call: str) -> str | None:
        """Decide in a context among healthy deployments, and keep the decision under the id of the call.

        Parameters
        ----------
        deployments : sequence of mappings
            Healthy deployments of the router.
        messages : sequence of mappings
            The prompt.
        call : str
            The `litellm_call_id`.

        Returns
        -------
        str or None
            The action's label; None if the service does not answer in time.
        """
        self.forget(call)  # a retry of a call that failed
        eligible = list(dict.fromkeys(map(self.label, deployments)))
        made: Any
        asked: Any = {"eligible": eligible, "costs": self.costs(deployments, messages)}
        if isinstance(self.decider, Learner):
            made = self.decider.decide(self.context(messages), **asked)
        else:
            made = self._from_service(self.decider, self.context(messages), asked)
        if made is None or made.action not in eligible:
            return None
        with self._lock:
            self._decisions[call] = made
            oldest = self._decisions.popitem(last=False)[1] if len(self._decisions) > MOST_KEPT else None
        self._close(oldest)
        return str(made.action)

    def _from_service(
        self, client: "Client", context: Mapping[str, Any], asked: dict[str, Any]
    ) -> "DecideAnswer | None":
        from sparing.service.client import RETRY_STATUSES, ServiceProblem, UnreachableError

        try:
            return client.decide(context, **asked)
        except (UnreachableError, ServiceProblem) as error:
            if isinstance(error, ServiceProblem) and error.status not in RETRY_STATUSES:
                raise
            log.warning("the service did not decide, so LiteLLM's own strategy chooses: %s", error)
            return None

    def _close(self, made: "Decision | DecideAnswer | None") -> None:
        if isinstance(self.decider, Learner) and isinstance(made, Decision) and made.id in self.decider.open:
            self.decider.forget(made)

    def _check(self, deployments: Sequence[Mapping[str, Any]]) -> None:
        decider: Any = self.decider
        known = decider.action_names if isinstance(decider, Learner) else decider.about().actions
        for deployment in deployments:
            label = self.label(deployment)
            if label not in known:
                raise SettingError(
                    f"model {label!r} is no action; the actions are {', '.join(map(repr, known))}. Add it with add_action, or name its "
                    f"action: labels={{{deployment['litellm_params']['model']!r}: ACTION}}"
                )
            if self.dollars_per_reward is not None:
                self._prices(deployment)
                self._length(label)

    def _length(self, label: str) -> float:
        lengths = self.output_tokens
        if not isinstance(lengths, Mapping):
            return float(lengths)
        if label not in lengths:
            raise SettingError(
                f"output_tokens has no entry for {label!r}; give one for each action, or one number"
            )
        return float(lengths[label])

    def _prices(self, deployment: Mapping[str, Any]) -> tuple[float, float]:
        """Return US dollars per token of prompt and of answer: the deployment's own, else those of LiteLLM's table."""
        model: str = deployment["litellm_params"]["model"]
        read, written = "input_cost_per_token", "output_cost_per_token"
        table = (
            self.litellm.model_cost
        )  # a router adds entries without prices, which `get_model_info` calls free
        own = (deployment["litellm_params"], deployment.get("model_info") or {})
        for known in (*own, table.get(model, {}), table.get(model.partition("/")[2], {})):
            if known.get(read) is not None and known.get(written) is not None:
                return float(known[read]), float(known[written])
        raise SettingError(
            f"LiteLLM knows no price of {model!r}; add {read} and {written} to its litellm_params, or omit dollars_per_reward"
        )


class _Installed:
    """The two methods of a router that LiteLLM replaces."""

    def __init__(self, strategy: RoutingStrategy, router: Any, group: str) -> None:
        self.strategy, self.router, self.group = strategy, router, group
        self._own, self._own_async = router.get_available_deployment, router.async_get_available_deployment

    def get_available_deployment(
        self,
        model: str,
        messages: Messages | None = None,
        input: Any = None,
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        known = {"messages": messages, "input": input, "specific_deployment": specific_deployment}
        if model == self.group and messages and not specific_deployment:
            request: dict[str, Any] = {} if request_kwargs is None else request_kwargs
            chosen = self._chosen(self._healthy(), messages, request)
            if chosen is not None:
                return chosen
        return self._own(model=model, request_kwargs=request_kwargs, **known)

    async def async_get_available_deployment(
        self,
        model: str,
        request_kwargs: dict[str, Any] | None = None,
        messages: Messages | None = None,
        input: Any = None,
        specific_deployment: bool | None = False,
    ) -> Any:
        request: dict[str, Any] = {} if request_kwargs is None else request_kwargs
        known: dict[str, Any] = {
            "messages": messages,
            "input": input,
            "specific_deployment": specific_deployment,
        }
        if model == self.group and messages and not specific_deployment:
            healthy = await self.router.async_get_healthy_deployments(
                model=model, request_kwargs=request, **known
            )
            # A learner may compile, and the client waits: neither on the event loop.
            chosen = await asyncio.to_thread(self._chosen, healthy, messages, request)
            if chosen is not None:
                return chosen
        return await self._own_async(model=model, request_kwargs=request, **known)

    def _healthy(self) -> list[Any]:
        listed = self.router.get_model_list(model_name=self.group) or []
        ids = [deployment["model_info"]["id"] for deployment in listed]
        cooling = {name for name, _ in self.router.cooldown_cache.get_active_cooldowns(ids, None)}
        return [deployment for name, deployment in zip(ids, listed, strict=True) if name not in cooling]

    def _chosen(self, healthy: Any, messages: Messages, request: dict[str, Any]) -> Any:
        if not healthy or not isinstance(healthy, list):
            return None  # LiteLLM's own error, or a single deployment
        call = request.setdefault("litellm_call_id", str(uuid4()))
        label = self.strategy.choose(healthy, messages, call)
        if label is None:
            return None
        from litellm.router_strategy.simple_shuffle import simple_shuffle

        same = [deployment for deployment in healthy if self.strategy.label(deployment) == label]
        return simple_shuffle(llm_router_instance=self.router, healthy_deployments=same, model=self.group)


@functools.cache
def _failure_callback() -> Any:
    """Return the callback of LiteLLM that drops the decision of a call that failed.

    There is one for all strategies: LiteLLM keeps one callback of a class.
    """
    from litellm.integrations.custom_logger import CustomLogger

    class Failures(CustomLogger):
        def log_failure_event(
            self, kwargs: Any, response_obj: Any = None, start_time: Any = None, end_time: Any = None
        ) -> None:
            call = str(kwargs.get("litellm_call_id"))
            metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
            failed = metadata.get("deployment")
            for strategy in list(_INSTALLED):
                made = strategy.decision(call)
                # A retry of a call with an id of the caller's may have decided for another model meanwhile.
                if made is not None and failed in (None, *strategy.models(str(made.action))):
                    strategy.forget(call)

        async def async_log_failure_event(
            self, kwargs: Any, response_obj: Any = None, start_time: Any = None, end_time: Any = None
        ) -> None:
            self.log_failure_event(kwargs)

    return Failures()


def _call_id(response: Any) -> str:
    if isinstance(response, str):
        return response
    hidden = getattr(response, "_hidden_params", None) or {}
    return str(hidden.get("litellm_call_id"))
