import ebboost as eb
from tests.learners.helpers import fitted, problem


def test_params_are_passed_to_xgboost():
    model = fitted(eb.XGBoost(params={"max_depth": 1}), *problem())
    assert all("yes=3" not in tree for tree in model.ensemble_.booster.get_dump())
