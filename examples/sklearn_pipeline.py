"""Compile a pipeline of scikit-learn for any number of rows.

Needs `pip install scikit-learn skl2onnx`.
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import graphc

x, y = load_breast_cancer(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(x.astype(np.float32), y, random_state=0)
pipeline = make_pipeline(StandardScaler(), GradientBoostingClassifier(random_state=0))
pipeline.fit(train_x, train_y)

options = {"zipmap": False}  # probabilities as an array instead of dictionaries
onnx_model = to_onnx(pipeline, train_x[:1], options=options)
model = graphc.compile(onnx_model)
print(model.inputs)  # the number of rows is dynamic

labels, probabilities = model(test_x)
np.testing.assert_allclose(probabilities, pipeline.predict_proba(test_x), atol=1e-5)
print(
    f"accuracy {np.mean(labels == test_y):.3f}, scikit-learn {pipeline.score(test_x, test_y):.3f}"
)
one_row, _ = model(test_x[:1])
assert one_row[0] == labels[0]
