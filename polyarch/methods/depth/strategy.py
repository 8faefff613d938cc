"""The strategy ``variational``: q over the architectures is learned with the weights."""

from torch import nn

from polyarch.distributions import FactorisedCategorical, Uniform
from polyarch.methods.depth.search import DepthSearch
from polyarch.methods.depth.settings import DepthSettings
from polyarch.objectives import SampledExpectation
from polyarch.runs.run import Run
from polyarch.runs.training import Training, early_stopping, sgd, weight_splitting
from polyarch.strategies import Variational


def variational(run: Run) -> Training:
    """Learns q exactly where the only choice is a depth, and from sampled paths elsewhere."""
    train, num_data = run.settings.train, len(run.feed.train)
    # One full batch per epoch: what is maximised is known exactly, and validation examples are few. A density has no
    # bound, so that numbers are learned by heart whatever the depth: they are watched on validation examples.
    is_whole = train.batch_size >= num_data and not run.task.starts_at_zero
    watched = "loss" if is_whole else "valid_loss"
    search = depth_search(run)
    stopping = early_stopping(run, watched, after=search.warm_up(train.epochs))
    space = run.net.space
    if len(space.choices) == 1:
        exact = search.strategy(run.net, num_data=num_data, task=run.task)
        steps = search.expectation_steps(exact, run.feed.for_statistics(run.feed.train))
        splitting = weight_splitting(run, exact.optimizer)
        return Training(exact, exact.optimizer, [*stopping, *steps, *splitting], exact.q)
    q = FactorisedCategorical(space).to(run.settings.device)
    optimizer = sgd(nn.ModuleList([run.net, q]), train)
    sampled = Variational(
        run.net,
        q,
        Uniform(space),
        optimizer,
        num_data=num_data,
        expectation=SampledExpectation(train.samples),
        task=run.task,
    )
    return Training(sampled, optimizer, [*stopping, *weight_splitting(run, optimizer)], q)


def depth_search(run: Run) -> DepthSearch:
    """How the posterior over the only choice is learned."""
    train, depth = run.settings.train, run.settings.section(DepthSettings)
    return DepthSearch(
        learning_rate=train.learning_rate,
        momentum=train.momentum,
        weight_decay=train.weight_decay,
        prior=depth.prior,
        prior_ratio=train.prior_ratio,
        updates=depth.updates,
        q_learning_rate=depth.q_learning_rate,
    )
