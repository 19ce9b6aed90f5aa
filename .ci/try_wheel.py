"""What the wheel gives without extras: its files are there, and a model fits. Run by `make build`."""

from importlib.resources import files

import numpy as np

import sshiba

package = files("sshiba")
assert "site-packages" in str(package), f"not the wheel's: {package}"
for name in ("py.typed", "report/page.html", "report/page.css", "report/page.js"):
    assert package.joinpath(name).is_file(), f"the wheel lacks {name}"

rng = np.random.default_rng(0)
z = rng.standard_normal((60, 2))
x = z @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((60, 5))
sign = np.where(z[:, 0] > 0, "up", "down")
model = sshiba.SSHIBA(4, random_state=0).fit({"x": x, "sign": sign})
accuracy = np.mean(model.predict({"x": x}, "sign") == sign)
assert accuracy > 0.9, f"accuracy {accuracy:.2f}"
