"""The web page as a hosted demo: the starter encoder, fewer masked copies, so that several visitors fit on two cores."""

from cocoax.app import launch

if __name__ == "__main__":
    launch("starter", samples=400, host="0.0.0.0", port=7860)
